"""A release that is older than the data in hand: said at the entity, and nowhere else."""

from __future__ import annotations

import warnings

from twofold.privacy.ledger.state import Entry

__all__ = ["StaleRelease", "warn_if_stale"]


class StaleRelease(UserWarning):
    """The data changed since the release that is handed out again.

    Privacy
    -------
    For the screen of the entity only. Whether private data changed is itself private: who receives the release must
    see the same bytes either way, so this warning must not be sent on.
    """


def warn_if_stale(entry: Entry, data: str) -> None:
    """Warn if a stored release was drawn from other data than the caller holds now.

    Examples
    --------
    >>> from twofold.privacy.ledger.cost import Cost
    >>> entry = Entry(number=1, hash="", cost=Cost(), request={"data": "0" * 64})
    >>> warn_if_stale(entry, "0" * 64)
    """
    if entry.request["data"] != data:
        warnings.warn(
            "the data changed since this release; the stored bytes are handed out again and nothing is spent. "
            "A release of the data as they are now needs a new public version: release(version=...). "
            "Keep this message inside: that private data changed is private.",
            StaleRelease,
            stacklevel=4,
        )
