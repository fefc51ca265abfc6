"""Item-item models: EASE, RP3beta, EASE on pooled rows adapted to one entity, and EASE pulled to public features."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from studies.baselines.base import Baseline, Options, Score, Setting, Site, read_values, spread

__all__ = ["ITEM_ITEM", "ease"]

Wide = NDArray[np.float64]
_MANY: Final = 4


def ease(rows: sparse.csr_array, *, ridge: float, values: str, extra: Wide | None = None) -> Score:
    """Fit EASE (Steck, 2019), with the smaller of its two inverses.

    Parameters
    ----------
    rows : csr array (users, items)
        What is fitted.
    ridge : float
        In mean squared columns, so that one number means the same for few and many users.
    values : str
        How counts are read.
    extra : array (rows, items), optional
        Rows of no user, such as one per public class.

    Examples
    --------
    >>> rows = sparse.csr_array(np.kron(np.eye(2), np.ones((6, 4))))
    >>> score = ease(rows, ridge=1.0, values="one")
    >>> score(sparse.csr_array(np.array([[1.0, 1, 1, 0, 0, 0, 0, 0]])))[0, 3:].round(1).tolist()
    [0.8, -0.0, -0.0, -0.0, -0.0]
    """
    read = read_values(rows, values)
    penalty = max(ridge * _mean_square(read), 1e-9)
    whole = read if extra is None else sparse.csr_array(sparse.vstack([read, sparse.csr_array(extra)], format="csr"))
    if whole.shape[0] < whole.shape[1]:
        return _dual(whole, penalty, values)
    inverse = _inverse(np.asarray((whole.T @ whole).todense()), penalty)
    return lambda block: -(read_values(block, values) @ inverse) / np.diag(inverse)


def _dual(rows: sparse.csr_array, penalty: float, values: str) -> Score:
    """Few users: with K the inverse of the Gram plus the penalty, all of K comes from a table of users by users."""
    gram = np.asarray((rows @ rows.T).todense())
    gram[np.diag_indices_from(gram)] += penalty
    solved = linalg.solve(gram, rows.toarray(), assume_a="pos", overwrite_a=True)
    left = 1 - np.asarray(rows.multiply(solved).sum(axis=0)).ravel()

    def score(block: sparse.csr_array) -> Wide:
        return np.asarray(((read_values(block, values) @ rows.T).todense() @ solved) / left)

    return score


def _inverse(gram: Wide, penalty: float) -> Wide:
    gram[np.diag_indices_from(gram)] += penalty
    factor, fault = linalg.lapack.dpotrf(gram, lower=1, overwrite_a=1)
    inverse, other = linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    assert fault == other == 0, "a Gram matrix plus a ridge has an inverse"
    lower = np.tril(inverse)
    return np.asarray(lower + np.tril(lower, -1).T)


def _mean_square(rows: sparse.csr_array) -> float:
    return float(rows.data @ rows.data) / rows.shape[1]


def _ridges(setting: Setting, *, least: float) -> list[Options]:
    """Over a hundredfold for counts, which can be read in three ways; further for 0 and 1."""
    if setting.bound <= 1:
        return [{"ridge": ridge, "values": "one"} for ridge in spread(least, 1000 * least, 12)]
    return [
        {"ridge": ridge, "values": values} for values, ridge in product(setting.values, spread(least, 100 * least, 4))
    ]


def _ease_alone(site: Site, options: Options) -> Score:
    return ease(site.rows, **options)


def _ease_pooled(site: Site, options: Options) -> Score:
    everyone = site.everyone
    return everyone.once(tuple(options.values()), lambda: ease(everyone.pooled, **options))


def _public(site: Site, options: Options) -> Score:
    """Every public class is a user who has its items; `pull` such users weigh as much as the entity's own."""
    features = site.setting.features
    assert features is not None, "asked for where there are features only"
    table = features.matrix.T.astype(np.float64)
    table /= np.maximum(np.sqrt((table**2).sum(axis=1, keepdims=True)), 1.0)
    total = float((read_values(site.rows, options["values"]).data ** 2).sum())
    scale = np.sqrt(options["pull"] * total / max(float((table**2).sum()), 1e-12))
    return ease(site.rows, ridge=options["ridge"], values=options["values"], extra=scale * table)


def _pulls(setting: Setting) -> list[Options]:
    values = setting.values[-1]
    return [
        {"pull": pull, "ridge": ridge, "values": values}
        for pull, ridge in product((0.03, 0.3, 3.0, 30.0), (0.3, 3.0, 30.0))
    ]


def _adapted(site: Site, options: Options) -> Score:
    """Pooled Gram plus the own one, which weighs `own` times what everybody's does; by a low-rank update."""
    everyone, values = site.everyone, options["values"]

    def pooled() -> Wide:
        read = read_values(everyone.pooled, values)
        return _inverse(np.asarray((read.T @ read).todense()), max(options["ridge"] * _mean_square(read), 1e-9))

    inverse = everyone.once((options["ridge"], values), pooled)
    own = read_values(site.rows, values)
    weight = options["own"] * everyone.pooled.shape[0] / max(own.shape[0], 1)
    right = own @ inverse
    small = np.asarray(right @ own.T.toarray()) * weight
    small[np.diag_indices_from(small)] += 1
    update = weight * linalg.solve(small, right, assume_a="gen")
    diagonal = np.diag(inverse) - (right * update).sum(axis=0)

    def score(block: sparse.csr_array) -> Wide:
        read = read_values(block, values)
        return np.asarray(-(read @ inverse - (read @ right.T) @ update) / diagonal)

    return score


def _owns(setting: Setting) -> list[Options]:
    """Two ways to read counts leave room for two ridges; 0 and 1 for four."""
    grid = (
        product(("one",), (0.1, 0.4, 2.0, 10.0), (0.02, 0.3, 4.0))
        if setting.bound <= 1
        else product(("one", "root"), (0.3, 3.0), (0.02, 0.3, 4.0))
    )
    return [{"ridge": ridge, "own": own, "values": values} for values, ridge, own in grid]


def _walk(rows: sparse.csr_array, *, alpha: float, beta: float) -> Score:
    """RP3beta (Paudel et al., 2017): three steps from item to user to item, popular items held back.

    A table of items by items is made only if there are many more users than items; else a block of histories goes
    through both steps.
    """
    ones = read_values(rows, "one")
    items = np.maximum(np.bincount(rows.indices, minlength=rows.shape[1]), 1.0)
    people = np.maximum(np.diff(ones.indptr), 1.0)
    to_user = sparse.csr_array(ones.multiply(items**-alpha).T)
    to_item = sparse.csr_array(ones.multiply(people[:, None] ** -alpha).multiply(items**-beta))
    if rows.shape[0] > _MANY * rows.shape[1]:
        table = np.asarray((to_user @ to_item).todense())
        return lambda block: read_values(block, "one") @ table
    return lambda block: np.asarray(((read_values(block, "one") @ to_user) @ to_item).todense())


def _walks(setting: Setting) -> list[Options]:  # noqa: ARG001
    return [{"alpha": alpha, "beta": beta} for alpha, beta in product((0.6, 1.0, 1.5, 2.0), (0.0, 0.3, 0.6))]


def _walk_alone(site: Site, options: Options) -> Score:
    return _walk(site.rows, **options)


def _walk_pooled(site: Site, options: Options) -> Score:
    everyone = site.everyone
    return everyone.once(tuple(options.values()), partial(_walk, everyone.pooled, **options))


#: Item-item models, alone and pooled.
ITEM_ITEM: Final = (
    Baseline(name="EASE alone", scope="alone", fit=_ease_alone, trials=partial(_ridges, least=0.7)),
    Baseline(name="RP3beta alone", scope="alone", fit=_walk_alone, trials=_walks),
    Baseline(name="EASE with public features", scope="alone", fit=_public, trials=_pulls, features=True),
    Baseline(name="EASE pooled", scope="pooled", fit=_ease_pooled, trials=partial(_ridges, least=0.03)),
    Baseline(name="RP3beta pooled", scope="pooled", fit=_walk_pooled, trials=_walks),
    Baseline(name="EASE pooled, then adapted", scope="pooled", fit=_adapted, trials=_owns),
)
