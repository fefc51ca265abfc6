r"""The agreement between the sides: the plan, the two messages and their bytes. Sees no ratings.

Ways to carry the two messages. A transport sees bytes, never ratings; it may be replaced without anyone noticing.
"""

from __future__ import annotations
