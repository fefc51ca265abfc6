"""Carry the files of a federation through Flower: bytes in, bytes out, and nothing is decided here.

An entity's `twofold join` writes signed messages into its outbox; `twofold coordinate` reads them from its inbox and
publishes into its outbox. This package moves them between these folders. It imports nothing of twofold, has no key and
is never told where data is. Who signed what, and for which plan, is checked at both ends as with any other carrier.
"""

__version__ = "0.1.0.dev1"
