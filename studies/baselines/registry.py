"""Every baseline, and our own model beside them."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from scipy import sparse

from studies.baselines.base import Baseline, Options, Score, Setting, Site
from studies.baselines.fedcia import FEDCIA
from studies.baselines.ials import IALS, LIBRARIES
from studies.baselines.item_item import ITEM_ITEM
from studies.baselines.popularity import POPULARITY
from studies.baselines.ratings import OFFSETS
from twofold.entity.adapt import adapt
from twofold.errors import BadParameter

__all__ = ["OURS", "baselines", "find_baseline"]


def _ours(rows: sparse.csr_array, setting: Setting, **more: Any) -> Score:
    """Fit what an entity fits when nothing was shared; it chooses by its own validation, so nothing is tuned."""
    made = adapt(
        rows,
        None,
        feedback=setting.feedback,
        lower=setting.lower,
        bound=setting.bound,
        rank=setting.rank,
        seed=setting.seed,
        threads=1,
        **more,
    )
    return made.scorer.scores


def _alone(site: Site, options: Options, *, features: bool = False) -> Score:  # noqa: ARG001
    return _ours(site.rows, site.setting, features=site.setting.features if features else None)


def _pooled(site: Site, options: Options) -> Score:  # noqa: ARG001
    everyone = site.everyone
    return everyone.once("pooled", lambda: _ours(everyone.pooled, everyone.setting, local="item-item"))


#: Ours: the bar that tuned baselines are held against, and it against them.
OURS: Final = "twofold alone"
_OWN: Final = (
    Baseline(name=OURS, scope="alone", fit=_alone),
    Baseline(name="twofold with public features", scope="alone", fit=partial(_alone, features=True), features=True),
)
_FOR: Final[dict[str, tuple[Baseline, ...]]] = {
    "counts": (*POPULARITY, *ITEM_ITEM, *IALS, *LIBRARIES, *FEDCIA, *_OWN),
    "ratings": (*OFFSETS, *_OWN, Baseline(name="twofold pooled", scope="pooled", fit=_pooled)),
}
_ORDER: Final = ("alone", "pooled", "shared")


def baselines(feedback: str, *, features: bool, federated: bool = True) -> list[Baseline]:
    """Give the baselines for one kind of data: alone, then pooled, then shared.

    Parameters
    ----------
    feedback : {"counts", "ratings"}
        What absent entries mean.
    features : bool
        Whether the items have public features.
    federated : bool
        Whether there is more than one entity; a single one has nobody to pool or share with.

    Examples
    --------
    >>> [one.name for one in baselines("ratings", features=False, federated=False)]
    ['item and user offsets, own', 'twofold alone']
    """
    found = [one for one in _FOR[feedback] if features or not one.features]
    return sorted((one for one in found if federated or one.scope == "alone"), key=lambda one: _ORDER.index(one.scope))


def find_baseline(name: str, feedback: str) -> Baseline:
    """Find one by name.

    Examples
    --------
    >>> find_baseline("EASE alone", "counts").scope
    'alone'
    """
    found = next((one for one in _FOR[feedback] if one.name == name), None)
    if found is None:
        raise BadParameter("this baseline is unknown.", found=f"{name!r:.60}")
    return found
