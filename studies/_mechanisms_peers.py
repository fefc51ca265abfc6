"""Peers: what the audit recorded of the reference program, and diffprivlib where it can be imported."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from typing import Any

from studies._mechanisms_data import Case, loss

__all__ = ["diffprivlib_cells", "recorded"]

# Recorded runs of the reference program of Balcan et al. (Octave, unmodified; ratio of k-means losses, k = 10). It
# spends several times the ε it is given, see docs/reference/mechanisms.md.
_RECORDED: dict[tuple[int, int], tuple[tuple[str, ...], str]] = {
    (2_000, 50): (("98-111", "59-71", "", "29-39", ""), "6-24"),
    (2_000, 500): (("171-186", "81-88", "", "42-62", ""), "8-26"),
    (20_000, 50): (("70.7", "27.2", "", "not finished", ""), "76-199"),
    (20_000, 500): (("84.2", "52.0", "", "not finished", ""), "71"),
}


def recorded(case: Case) -> tuple[tuple[str, ...], str]:
    """Recorded ratios and seconds of the reference program for this shape, blank where there is no record.

    Examples
    --------
    >>> from studies._mechanisms_data import make_case
    >>> recorded(make_case(200, 20, 3, 0))
    (('', '', '', '', ''), '')
    """
    return _RECORDED.get(case.rows.shape, (("",) * 5, ""))


def diffprivlib_cells(case: Case, epsilons: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Ratio of diffprivlib's KMeans per *declared* ε, and how many times that it really spends.

    Returns
    -------
    cells : tuple of str
        One per ε; what went wrong when it cannot be imported.
    promise : str
        The measured factor.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importlib.import_module("diffprivlib.models.k_means")
    except ImportError as problem:
        missing = "not installed" if isinstance(problem, ModuleNotFoundError) else "does not import"
        return (missing,) + ("",) * (len(epsilons) - 1), "declared ε, overspent"
    ratios = [loss(case.rows, _fit(module, case, float(one), case.n_clusters)[0]) / case.best for one in epsilons]
    factor = _fit(module, case, 1.0, 1)[1]  # with one cluster every mechanism it makes is about everybody
    return tuple(f"{ratio:.2f}" for ratio in ratios), f"declared ε; spends {factor:.2f} ε"


def _fit(module: Any, case: Case, epsilon: float, n_clusters: int) -> tuple[Any, float]:
    """Centres, and the sum of the ε of all mechanisms that the fit makes."""
    spent: list[float] = []
    originals = {name: getattr(module, name) for name in ("LaplaceBoundedDomain", "GeometricFolded")}
    for name, original in originals.items():
        setattr(module, name, _counting(original, spent))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = module.KMeans(n_clusters, epsilon=epsilon, bounds=(-10.0, 10.0), random_state=case.seed)
            model.fit(case.rows)
    finally:
        for name, original in originals.items():
            setattr(module, name, original)
    return model.cluster_centers_, sum(spent)


def _counting(original: Any, spent: list[float]) -> Any:
    def make(*positional: Any, **named: Any) -> Any:
        made = original(*positional, **named)
        spent.append(float(made.epsilon))
        return made

    return make
