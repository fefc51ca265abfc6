"""Related ways to release prototypes, by name."""

from __future__ import annotations

from typing import Any, Final, Protocol

from studies.related.coreset import Coreset
from studies.related.sample_aggregate import SampleAggregate
from twofold.privacy.events import Released
from twofold.privacy.rng import Source
from twofold.release.content import Prototypes
from twofold.release.contract import ReleaseParameters

__all__ = ["RELATED", "Releases"]


class Releases(Protocol):
    """What the studies need of a mechanism: a name and a release."""

    @property
    def name(self) -> str:
        """Name in tables."""
        ...

    def release(self, rows: Any, public: ReleaseParameters, *, rng: int | Source | None = None) -> Released[Prototypes]:
        """Release once."""
        ...


RELATED: Final[dict[str, Releases]] = {one.name: one for one in (Coreset(), SampleAggregate())}
