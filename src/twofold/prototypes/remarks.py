"""What an entity should know about its own rows before it releases; for its own eyes, as it comes from private data."""

from __future__ import annotations

from typing import Any

import numpy as np

from twofold.prototypes.base import Public
from twofold.prototypes.records import check_rows

__all__ = ["local_remarks"]


def local_remarks(rows: Any, public: Public) -> list[str]:
    """Say what will make a release less useful than planned; no number and no id is in it.

    Privacy
    -------
    Depends on the data, so it is shown where the data is and is never sent. A release goes on all the same: refusing
    an entity for having few users would tell the others that it has.

    Examples
    --------
    >>> public = Public(n_items=3, n_users=9, max_items=1, bound=1, n_prototypes=2)
    >>> for remark in local_remarks(np.array([[0, 0, 0], [2, 1, 0]]), public):
    ...     print(remark)
    there are fewer users than promised: noise was planned for more, accuracy will be lower, privacy is the same
    some users have no entry: they count as users and add nothing else
    some rows exceed the bounds of the plan: they will be cut (see Bounds for a better way to cut them)
    """
    matrix = check_rows(rows, public)
    lengths = np.diff(matrix.indptr)
    outside = (matrix.data < public.lower) | (matrix.data > public.bound)
    checks = {
        "there are fewer users than promised: noise was planned for more, accuracy will be lower, "
        "privacy is the same": len(lengths) < public.n_users,
        "there are fewer users than prototypes: most prototypes will hold noise alone": len(lengths)
        < min(public.n_prototypes, public.n_users),
        "some users have no entry: they count as users and add nothing else": bool((lengths == 0).any()),
        "some rows exceed the bounds of the plan: they will be cut (see Bounds for a better way to cut them)": bool(
            (lengths > public.max_items).any() or outside.any()
        ),
    }
    return [words for words, holds in checks.items() if holds]
