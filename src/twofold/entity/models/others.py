r"""What the other entities know together, as an entity of counts can use it: the sum they sent less its own part.

The server sends back the noisy totals of everybody's unit rows. An entity knows exactly what it put in, and takes it
out *before* anything else: otherwise its own held-out entries would come back to it as knowledge of others.

What is left is a Gram matrix in noise of known size. It is denoised in two steps.

1. *Weights.* Noise is the same for every pair, while what there is to know about an item grows with its use. With
   :math:`b_i = q_i / (q_i + t)`, q the released use, the matrix :math:`\sqrt b_i G_{ij} \sqrt b_j` has most of the
   knowledge and less of the noise. A direction of size w tells item i's part with variance :math:`w^2 q_i/\sum q` in
   noise of variance s², so t is :math:`s^2 \sum q / w^2` for the second strongest direction (the strongest is use
   itself), and 0 where there is no noise.
2. *Rotation-invariant shrinkage* of the eigenvalues (Ledoit and Péché; Bun, Allez, Bouchaud and Potters). By Stein's
   identity the size of eigenvector i in the true matrix is

   .. math:: \xi_i = w_i - 2 s^2 a_i \sum_j a_j \frac{w_i - w_j}{(w_i - w_j)^2 + s^2 a_i a_j},
             \qquad a_i = \sum_k b_k u_{ki}^2,

   where the a take the weights into account; without weights they are 1. It needs no count of directions and uses what
   is inside the bulk.

The diagonal comes from the sums, whose noise is smaller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from twofold.entity.models.blend import Wide
from twofold.entity.models.item_item import MAX_ITEMS
from twofold.entity.models.ridge import UNEXPLAINED
from twofold.entity.models.side import Side
from twofold.federation.factors import ItemFactors
from twofold.release.content import Moments

__all__ = ["Others", "denoised", "others_of"]

#: Use below which an item is mostly noise starts at this part of the average use, and ends at most here.
START: Final = 0.1
MOST: Final = 0.3
#: Least use of an item, in parts of the average.
LEAST_USE: Final = 1e-3
#: How far use by the rows of the matrix is from use by the sums beyond noise, in parts of the average.
APART: Final = 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class Others:
    """What the federation knows without this entity.

    Attributes
    ----------
    users : float
        How many people that is.
    sums : array (items,)
        Total of each item over their unit rows, above 0.
    gram : array (items, items) or None
        Total of the products of their unit rows, denoised; None where only sums are known.
    noise : float
        Standard deviation of the noise in a number of the Gram matrix before it was denoised.
    """

    users: float
    sums: Wide = field(repr=False)
    gram: Wide | None = field(repr=False)
    noise: float = 0.0

    @property
    def shares(self) -> Wide:
        """Use of each item by one person."""
        return np.asarray(self.sums / self.users)


def others_of(shared: ItemFactors, own: Side) -> Others:
    """Take an entity's own part out of what was shared, and denoise the rest.

    Parameters
    ----------
    shared : ItemFactors
        What the server sent.
    own : Side
        Private: the entity's own people as they were when it sent its message.
    """
    if shared.totals is not None and len(shared.totals.sums) <= MAX_ITEMS:
        return _from_totals(shared.totals, own)
    return _from_factors(shared, own)


def _from_totals(totals: Moments, own: Side) -> Others:
    number, items = own.users, own.rows.shape[1]
    weight = totals.weight(number)
    gram = totals.pairs.astype(np.float64) - weight * own.unit_gram
    # Every row has norm 1, so the trace counts people; its noise is that of few numbers beside so many.
    users = max(float(totals.users) - weight * number, float(number), 1.0)
    sums = totals.sums - weight * own.use
    noise = float(totals.pairs_noise)
    sums = np.maximum(_use(sums, gram, float(totals.sums_noise), noise), LEAST_USE * users / items)
    found = denoised(gram, sums, noise)
    found[np.diag_indices(items)] += _unexplained(np.diag(found), sums * (users / sums.sum()))
    return Others(users=users, sums=sums, gram=found, noise=noise)


def _use(sums: Wide, gram: Wide, sums_noise: float, noise: float) -> Wide:
    """Use of each item from the sums and from the rows of the Gram matrix, each by its precision.

    A person adds to row i of the matrix what they add to sum i, times the total of their own row: the rows tell use,
    too, and where histories are long with less noise than the sums. They count long histories more, so they are taken
    to be wrong by `APART` of the average use as well.
    """
    rows = gram.sum(axis=1)
    length = float(rows.sum() / sums.sum()) if sums.sum() > 0 else 0.0
    if length <= 0 or sums_noise <= 0 or noise <= 0:
        return sums
    apart = APART * float(np.abs(sums).mean())
    one, other = sums_noise**-2, 1.0 / ((noise / length) ** 2 * len(sums) + apart**2)
    return np.asarray((one * sums + other * rows / length) / (one + other))


def _unexplained(explained: Wide, squares: Wide) -> Wide:
    return np.asarray(np.maximum(squares - explained, UNEXPLAINED * squares))


def _from_factors(shared: ItemFactors, own: Side) -> Others:
    """Second moments of another mechanism: patterns, or factors of prototypes.

    The own part is taken out along the patterns that were sent; out of prototypes it cannot be taken.
    """
    number, items = own.users, own.rows.shape[1]
    users = max(float(shared.users) - number, float(number), 1.0)
    use = np.maximum(shared.means, 0.0)
    total = float(use.sum())
    sums = np.maximum(use * (users / total) if total > 0 else np.zeros(items), LEAST_USE * users / items)
    if items > MAX_ITEMS:
        return Others(users=users, sums=sums, gram=None)
    if shared.patterns is not None and shared.strengths is not None:
        side = shared.patterns.astype(np.float64)
        along = own.unit @ side
        part = along.T @ along
        if own.rest is not None and own.rest.unit_gram is not None:
            part = part + side.T @ own.rest.unit_gram @ side
        values, turns = np.linalg.eigh(np.diag(shared.strengths * max(shared.users, 1.0)) - part)
        side = (side @ turns) * np.sqrt(np.maximum(values, 0.0))
        gram = side @ side.T
    else:
        side = shared.factors.astype(np.float64)
        gram = side @ shared.moments @ side.T
        gram = gram * (users / max(float(np.trace(gram)), total, 1e-300))
    if not np.diag(gram).any():
        return Others(users=users, sums=sums, gram=None)
    gram[np.diag_indices(items)] += _unexplained(np.diag(gram), sums * (users / sums.sum()))
    return Others(users=users, sums=sums, gram=gram)


def denoised(gram: Wide, sums: Wide, noise: float) -> Wide:
    """Denoise a Gram matrix of items; see the module's notes.

    Parameters
    ----------
    gram : array (items, items)
        Symmetric, with noise.
    sums : array (items,)
        Use of each item, above 0.
    noise : float
        Standard deviation of the noise in a number off the diagonal.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = 100 * np.outer(np.ones(50), np.ones(50))
    >>> noise = np.triu(rng.normal(size=(50, 50)) * 30, 1)
    >>> found = denoised(truth + noise + noise.T, np.full(50, 700.0), 30.0)
    >>> bool(np.abs(found - truth).mean() < 0.3 * np.abs(noise + noise.T).mean())
    True
    """
    share = sums / (sums + _weak_use(gram, sums, noise)) if noise > 0 else np.ones_like(sums)
    root = np.sqrt(share)
    values, axes = np.linalg.eigh(gram * root[:, None] * root)
    part = share @ axes**2
    sizes = _shrunk(values, part, noise)
    kept = sizes > 0
    sides = root[:, None] * axes[:, kept]
    # Weights before and after take the square of its part from a direction: the strongest, use itself, keeps its size.
    return np.asarray((sides * sizes[kept]) @ sides.T / max(float(part[-1]), 0.5) ** 2)


def _weak_use(gram: Wide, sums: Wide, noise: float) -> float:
    """Use below which an item is mostly noise, by the size of the second strongest direction."""
    share = sums / (sums + START * float(sums.mean()))
    root = np.sqrt(share)
    values = np.asarray(np.linalg.eigvalsh(gram * root[:, None] * root), np.float64)
    sizes = np.sort(_shrunk(values, np.full(sums.size, share.mean()), noise))
    second = float(sizes[-2]) if sizes.size > 1 else 0.0
    least = noise * math.sqrt(float(share.sum()))
    return min(noise**2 * float(sums.sum()) / max(second, least) ** 2, MOST * float(sums.mean()))


def _shrunk(values: Wide, part: Wide, noise: float) -> Wide:
    if noise <= 0:
        return np.maximum(values, 0.0)
    apart = values[:, None] - values
    pull = (apart / (apart**2 + noise**2 * np.outer(part, part))) @ part
    return np.asarray(np.clip(values - 2 * noise**2 * part * pull, 0.0, np.maximum(values, 0.0)))
