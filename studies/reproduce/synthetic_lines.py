"""Names of the lines of the synthetic experiments, and their errors on a fresh draw in words."""

from __future__ import annotations

from typing import Final

from studies.reproduce.results import Results

__all__ = ["FRESH", "KMEANS", "MEANS", "MF", "NOISE", "PRIVATE", "PUBLISHED", "RANDOM", "TABLE", "fresh_words"]

MF: Final = "MF"
KMEANS: Final = "MF + k-means"
RANDOM: Final = "MF + k-random"
NOISE: Final = "MF + uniform noise"
MEANS: Final = "item means"
_EPSILONS: Final = ("0.005", "0.05", "0.5", "5")
PRIVATE: Final = tuple(f"MF + private, ε = {epsilon}" for epsilon in _EPSILONS)
PUBLISHED: Final = tuple(f"as published, ε = {epsilon}, no DP" for epsilon in _EPSILONS)
TABLE: Final = "rmse_table"
FRESH: Final = "rmse_fresh"


def fresh_words(results: Results, names: tuple[str, ...]) -> str:
    """Errors on a fresh draw at the last point.

    Parameters
    ----------
    results : Results
        Of a figure.
    names : tuple of str
        Lines, in the order of the text.
    """
    last = results.x[-1]
    return ", ".join(f"{name} {results.at(name, last, FRESH)}" for name in names)
