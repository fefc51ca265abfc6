"""The bilinear mechanism: rows in, one vector of noisy whole numbers out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from twofold.errors import BadParameter
from twofold.privacy.budget import Number
from twofold.privacy.events import Event
from twofold.privacy.mechanisms.released import Released
from twofold.privacy.rng import Source, source
from twofold.prototypes.base import Public
from twofold.prototypes.bilinear.combine import combine_bilinear
from twofold.prototypes.bilinear.content import BilinearSums
from twofold.prototypes.bilinear.layout import KINDS, BilinearLayout
from twofold.prototypes.bilinear.moments import Kind, Moments
from twofold.prototypes.bilinear.noise import BilinearNoise
from twofold.prototypes.bilinear.records import exact_sums
from twofold.prototypes.records import check_rows

__all__ = ["Bilinear", "Gram", "ItemFeatures", "Sketch"]


@dataclass(frozen=True, kw_only=True)
class Bilinear:
    """Noisy sums of rows and of products of rows with a second vector.

    Parameters
    ----------
    kind : {"gram", "sketch", "features"}
        What the second vector is: the row itself, a public random map of it of length ``n_prototypes``, or its profile
        over public item features.
    base_share, cap
        As for `BilinearLayout.of`; for experiments, a plan has the defaults.

    Paper
    -----
    Not in it. With one-hot public cells as second vector it would be the paper's prototypes without private clusters
    (`twofold.prototypes.buckets`); the Gram matrix is that of Dwork, Talwar, Thakurta and Zhang 2014 ("Analyze
    Gauss"), on integers.

    Privacy
    -------
    One event. A user's record has a norm of at most `BilinearLayout.sensitivity`, exactly; see there and in
    docs/reference/bilinear.md for the proof.

    Examples
    --------
    >>> import numpy as np
    >>> public = Public(n_items=3, n_users=100, max_items=3, bound=1, epsilon=1, delta=1e-6)
    >>> released = Bilinear(kind="gram").release(np.eye(3), public)
    >>> released.value.numbers.shape, released.event == Bilinear(kind="gram").price(public)
    ((10,), True)
    """

    kind: Kind
    base_share: Number | None = None
    cap: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise BadParameter("this kind of pairs is not known.", found=repr(self.kind), expected=", ".join(KINDS))

    @property
    def name(self) -> str:
        """How a plan names it."""
        return self.kind

    @property
    def private(self) -> bool:
        """Yes."""
        return True

    def size(self, public: Public) -> int | None:  # noqa: ARG002
        """One vector."""
        return 1

    def layout(self, public: Public) -> BilinearLayout:
        """Places, units and bound of a release."""
        return BilinearLayout.of(public, self.kind, base_share=self.base_share, cap=self.cap)

    def price(self, public: Public, *, seeded: bool = False) -> Event:
        """One event, the whole budget."""
        return self._noise(public).event(seeded=seeded)

    def release(self, rows: Any, public: Public, *, rng: int | Source | None = None) -> Released[BilinearSums]:
        """Release the noisy sums of an entity's rows."""
        matrix, noise, words = check_rows(rows, public), self._noise(public), source(rng)
        drawn = noise.release(exact_sums(matrix, public, noise.layout), rng=words)
        message = BilinearSums(
            mechanism=self.kind,
            numbers=drawn.value,
            deviation=noise.deviation,
            law=public.law,
            seeded=words.seeded,
        )
        return Released(value=message, event=drawn.event)

    def combine(self, messages: Iterable[BilinearSums], public: Public) -> Moments:
        """Add the messages up, weighted by size where every entity has its own noise."""
        return combine_bilinear(messages, public, layout=self.layout(public))

    def _noise(self, public: Public) -> BilinearNoise:
        return BilinearNoise(public=public, layout=self.layout(public))


@dataclass(frozen=True, kw_only=True)
class Gram(Bilinear):
    """`Bilinear` with the row itself: what users have together.

    Examples
    --------
    >>> Gram().name
    'gram'
    """

    kind: Kind = "gram"


@dataclass(frozen=True, kw_only=True)
class Sketch(Bilinear):
    """`Bilinear` with a public random map of the row: fewer numbers than a Gram matrix.

    Examples
    --------
    >>> Sketch().name
    'sketch'
    """

    kind: Kind = "sketch"


@dataclass(frozen=True, kw_only=True)
class ItemFeatures(Bilinear):
    """`Bilinear` with the row's profile over public item features: half a step of alternating least squares.

    Examples
    --------
    >>> ItemFeatures().name
    'features'
    """

    kind: Kind = "features"
