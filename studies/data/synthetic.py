"""The paper's synthetic counts, with the rates they were drawn from."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import sparse

from twofold.data.catalog import Catalog, Identifiers
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings
from twofold.data.split import Seed
from twofold.errors import BadParameter

__all__ = ["Form", "PoissonConfig", "Synthetic", "generate"]

Form = Literal["printed", "recorded"]
Factors = npt.NDArray[np.float64]
CELLS: Final = 4_000_000  # cells drawn at once: 32 MB of rates and as much of counts
# Counts must stay whole numbers in float32, which holds every integer up to 2^24; a Poisson draw of rate 10^7 stays
# below that by more than 2,000 standard deviations.
LARGEST_RATE: Final = 1e7


@dataclass(frozen=True, kw_only=True)
class PoissonConfig:
    """Settings of a draw.

    Parameters
    ----------
    n_users, n_items, rank, n_entities : int
        Sizes; the defaults are the paper's.
    form : {"recorded", "printed"}
        "printed": U and V standard normal, as the text says. "recorded": every row of U and V then scaled to length
        1, as in the recorded experiments.
    max_rate : float, default 10_000
        Cap of the Poisson rate. The recorded form never reaches it (its rates are between 1/e and e). The printed form
        needs it: the exponent has variance `rank`, so at rank 100 one rate in 10^9 exceeds e^60, which no count can
        hold. At the default, about 18% of the rates of the printed form at rank 100 are capped; capped cells keep no
        more of U and V than "large".

    Examples
    --------
    >>> PoissonConfig(n_users=1000).n_items
    500
    """

    n_users: int = 100_000
    n_items: int = 500
    rank: int = 100
    n_entities: int = 10
    form: Form = "recorded"
    max_rate: float = 10_000.0

    def __post_init__(self) -> None:
        for name in ("n_users", "n_items", "rank", "n_entities"):
            size = getattr(self, name)
            _check(isinstance(size, (int, np.integer)) and bool(size >= 1), f"{name} >= 1, a whole number")
        _check(self.n_entities <= self.n_users, "n_entities <= n_users")
        _check(self.form in ("printed", "recorded"), "form='printed' or form='recorded'")
        _check(0 < self.max_rate <= LARGEST_RATE, f"0 < max_rate <= {LARGEST_RATE:g}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Synthetic:
    """Drawn counts and the truth behind them.

    Parameters
    ----------
    federation : Federation
        The counts. Users are 0, 1, ... in the order of `user_factors`; entities are "entity-0", ...
    user_factors, item_factors : ndarray
        U (n_users x rank) and V (n_items x rank), after scaling in the recorded form.
    config : PoissonConfig
        What was asked for.
    share_capped : float
        Share of the rates that `max_rate` cut.
    """

    federation: Federation
    user_factors: Factors = field(repr=False)
    item_factors: Factors = field(repr=False)
    config: PoissonConfig
    share_capped: float

    def rates(self, users: slice = slice(None)) -> Factors:
        """The Poisson rates of some users, by default of all (n_users x n_items numbers)."""
        return _rates(self.user_factors[users] @ self.item_factors.T, self.config.max_rate)


def generate(config: PoissonConfig | None = None, *, rng: Seed = None) -> Synthetic:
    """Draw the paper's synthetic data: X ~ Poisson(exp(U Vᵀ)).

    Paper
    -----
    Section 5.2. The text swaps the sizes: it gives U m rows and V n rows with n = 100,000 and m = 500; here U belongs
    to the 100,000 users.

    Deviations
    ----------
    The default is the recorded form, because the printed one overflows (see `PoissonConfig`). Mind that the recorded
    form has almost no structure: its rates have mean 1.005 and standard deviation 0.10 at rank 100 while the counts
    scatter by 1.0 around them, so no factorization predicts a fresh draw better than the mean does.

    Parameters
    ----------
    config : PoissonConfig, optional
        Sizes and form; by default the paper's sizes.
    rng : int, Generator, SeedSequence or None
        Seed (SPEC 7). The same seed and config give the same data.

    Returns
    -------
    Synthetic
        Counts (zeros not stored), the factors and the share of capped rates. Users are cut into entities of equal
        size, up to one; users are exchangeable, so this is the paper's uniform distribution over entities.

    Examples
    --------
    >>> data = generate(PoissonConfig(n_users=60, n_items=20, rank=5, n_entities=3), rng=0)
    >>> list(data.federation), data.federation.sizes.tolist(), data.federation.feedback
    (['entity-0', 'entity-1', 'entity-2'], [20, 20, 20], 'counts')
    >>> data.rates(slice(0, 2)).shape, data.share_capped
    ((2, 20), 0.0)
    """
    config = config or PoissonConfig()
    generator = np.random.default_rng(rng)
    item_factors = _factors(config.n_items, config, generator)
    user_factors = _factors(config.n_users, config, generator)
    catalog = Catalog(pl.Series(np.arange(config.n_items)))
    cuts = np.linspace(0, config.n_users, config.n_entities + 1).round().astype(int).tolist()
    width = len(str(config.n_entities - 1))
    entities, capped = {}, 0
    for number, (start, stop) in enumerate(pairwise(cuts)):
        matrix, n_capped = _draw(user_factors[start:stop], item_factors, config.max_rate, generator)
        users = Identifiers(pl.Series(np.arange(start, stop)))
        entities[f"entity-{number:0{width}}"] = Ratings(matrix, users, catalog, "counts")
        capped += n_capped
    return Synthetic(
        federation=Federation(entities),
        user_factors=user_factors,
        item_factors=item_factors,
        config=config,
        share_capped=capped / (config.n_users * config.n_items),
    )


def _factors(n_rows: int, config: PoissonConfig, rng: np.random.Generator) -> Factors:
    factors = rng.standard_normal((n_rows, config.rank))
    if config.form == "recorded":
        factors /= np.linalg.norm(factors, axis=1, keepdims=True)
    return factors


def _rates(exponents: Factors, max_rate: float) -> Factors:
    """Cap before exp, so that nothing overflows; in place."""
    return np.exp(np.minimum(exponents, np.log(max_rate), out=exponents), out=exponents)


def _draw(
    user_factors: Factors, item_factors: Factors, max_rate: float, rng: np.random.Generator
) -> tuple[sparse.csr_array, int]:
    """Counts of one entity, drawn a block of users at a time, and how many rates were capped; zeros are not stored."""
    step = max(1, CELLS // len(item_factors))
    blocks, capped = [], 0
    for start in range(0, len(user_factors), step):
        exponents = user_factors[start : start + step] @ item_factors.T
        capped += int(np.count_nonzero(exponents > np.log(max_rate)))
        counts = rng.poisson(_rates(exponents, max_rate))
        blocks.append(sparse.csr_array(counts.astype(np.float32)))
    matrix = sparse.csr_array(sparse.vstack(blocks, format="csr"))
    matrix.has_canonical_format = True
    return matrix, capped


def _check(holds: bool, expected: str) -> None:
    if not holds:
        raise BadParameter("this synthetic data cannot be drawn.", expected=expected)
