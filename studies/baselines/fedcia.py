"""FedCIA's averaged item similarities (Han et al., SIGIR 2025): as published, and with a bound on a person's part.

Every entity makes a filter of its own rows: the similarity of items after users and items were scaled by the roots of
their numbers, and a weight times the projection onto its leading directions. The server sends the mean of the filters
back. An entity adds the scores of the mean, times a share, to those of its own filter.

The published code adds Laplace noise of scale 0.001 to every cell, without a bound on what one person changes, so this
is not privacy of a known ε. Here it runs without noise, and at a real ε: rows brought to length one, their products
summed over all people, Gaussian noise once, as after a secure sum; scaling and projection follow from the noisy sum.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import linalg

from studies.baselines.base import Baseline, Everyone, Options, Score, Setting, Site, read_values
from studies.baselines.popularity import multiplier, noise_source, unit_rows

__all__ = ["FEDCIA"]

Wide = NDArray[np.float64]
#: Noise that a count of people has to exceed by this factor before it scales anything.
_CLEAR: Final = 3.0


def _trials(setting: Setting) -> list[Options]:  # noqa: ARG001
    return [
        {"rank": rank, "projection": projection, "share": share}
        for rank, projection in ((8, 0.3), (32, 0.3), (8, 3.0))
        for share in (0.1, 1.0, 10.0, 100.0)
    ]


def _scaled(rows: sparse.csr_array) -> tuple[sparse.csr_array, Wide]:
    """Rows over the roots of the users' and items' numbers, and the roots of the items'."""
    ones = read_values(rows, "one")
    items = np.sqrt(np.maximum(np.bincount(rows.indices, minlength=rows.shape[1]), 1.0))
    users = np.sqrt(np.maximum(np.diff(rows.indptr), 1.0))
    return sparse.csr_array(ones.multiply(1 / items).multiply(1 / users[:, None])), items


def _directions(scaled: sparse.csr_array, rank: int) -> Wide:
    """Leading right singular vectors, (rank, items)."""
    if min(scaled.shape) <= 4 * rank:
        return np.asarray(np.linalg.svd(scaled.toarray(), full_matrices=False)[2][:rank])
    start = np.ones(min(scaled.shape))
    return np.asarray(linalg.svds(scaled, k=rank, v0=start, solver="arpack")[2])


def _parts(rows: sparse.csr_array, rank: int) -> tuple[sparse.csr_array, Wide, Wide]:
    """The two factors of an entity's projection, and its scaled rows."""
    scaled, items = _scaled(rows)
    found = _directions(scaled, rank)
    return scaled, found.T / items[:, None], found * items


def _own_filter(rows: sparse.csr_array, options: Options) -> Score:
    scaled, left, right = _parts(rows, options["rank"])

    def score(block: sparse.csr_array) -> Wide:
        ones = read_values(block, "one")
        near = np.asarray(((ones @ scaled.T) @ scaled).todense())
        return np.asarray(near + options["projection"] * ((ones @ left) @ right))

    return score


def _together(site: Site, options: Options, mean: Wide) -> Score:
    own = _own_filter(site.rows, options)
    return lambda block: own(block) + options["share"] * (read_values(block, "one") @ mean)


def _exact(site: Site, options: Options) -> Score:
    everyone = site.everyone
    mean = everyone.once(
        (options["rank"], options["projection"]), lambda: _mean(everyone, options["rank"], options["projection"])
    )
    return _together(site, options, mean)


def _mean(everyone: Everyone, rank: int, projection: float) -> Wide:
    """Mean of all entities' filters, every entity the same weight, as published."""

    def stacked() -> tuple[sparse.csr_array, Wide, Wide]:
        each = [_parts(rows, rank) for rows in everyone.rows.values() if rows.nnz]
        scaled = sparse.csr_array(sparse.vstack([one[0] for one in each], format="csr"))
        return scaled, np.hstack([one[1] for one in each]), np.vstack([one[2] for one in each])

    scaled, left, right = everyone.once(("parts", rank), stacked)
    found = np.asarray((scaled.T @ scaled).todense())
    if projection:
        found += projection * (left @ right)
    return found / len(everyone.rows)


def _private(site: Site, options: Options, *, data: bool) -> Score:
    everyone = site.everyone
    sums = everyone.once("sums", lambda: _noisy_sums(everyone, data=data))
    mean = everyone.once(
        (options["rank"], options["projection"]),
        lambda: _denoised(everyone, sums, options["rank"], options["projection"]),
    )
    return _together(site, options, mean)


def _noisy_sums(everyone: Everyone, *, data: bool) -> Wide:
    """Sum of the products of unit rows with Gaussian noise.

    A person's table of products has Frobenius norm one. Its upper triangle with the diagonal over √2 has norm √½, so
    noise of the multiplier times √½ on it, undone on the diagonal, makes the whole as private as one Gaussian.
    """
    setting = everyone.setting
    rows = unit_rows(everyone.pooled)
    n_items = rows.shape[1]
    sd = multiplier(setting.epsilon, setting.delta) * np.sqrt(0.5)
    drawn = np.triu(noise_source(setting, "products").normal(0, sd, (n_items, n_items)), 1)
    noise = drawn + drawn.T + np.diag(noise_source(setting, "squares").normal(0, sd * np.sqrt(2), n_items))
    return noise + np.asarray((rows.T @ rows).todense()) if data else noise


def _denoised(everyone: Everyone, sums: Wide, rank: int, projection: float) -> Wide:
    """Scale the noisy sum by its own diagonal where that is clear of noise, keep leading directions, share it out."""
    setting = everyone.setting
    floor = _CLEAR * multiplier(setting.epsilon, setting.delta)
    items = np.sqrt(np.maximum(np.diag(sums), floor))
    scaled = sums / items[:, None] / items
    strength, found = everyone.once(
        ("directions", rank),
        lambda: linalg.eigsh(scaled, k=min(rank, len(sums) - 1), which="LA", v0=np.ones(len(sums))),
    )
    kept = np.maximum(strength, 0) + projection
    return np.asarray((found / items[:, None] * kept) @ (found * items[:, None]).T) / len(everyone.rows)


def _filters(setting: Setting) -> list[Options]:  # noqa: ARG001
    return [{"rank": rank, "projection": projection} for rank in (4, 16, 48) for projection in (0.0, 0.1, 0.3, 1.0)]


def _alone(site: Site, options: Options) -> Score:
    return _own_filter(site.rows, options)


#: An entity's own filter (GF-CF, Shen et al., 2021); then the mean of all of them as published without noise, at a real
#: ε, and with nothing but the noise.
FEDCIA: Final = (
    Baseline(name="GF-CF alone", scope="alone", fit=_alone, trials=_filters),
    Baseline(name="FedCIA, no noise", scope="shared", fit=_exact, trials=_trials),
    Baseline(name="FedCIA, private", scope="shared", fit=partial(_private, data=True), trials=_trials),
    Baseline(name="noise only", scope="shared", fit=partial(_private, data=False), trials=_trials),
)
