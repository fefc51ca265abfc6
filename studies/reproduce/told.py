"""Numbers of a verdict in one line of text."""

from __future__ import annotations

from typing import Final

from studies.reproduce.results import Order, Results

__all__ = ["PLACES", "SYMBOLS", "line"]

#: What is varied, as short as the paper writes it.
SYMBOLS: Final = {
    "rank": "ℓ =",
    "n_prototypes": "k =",
    "epsilon": "ε =",
    "n_entities": "entities:",
    "iterations": "iterations:",
    "regularization": "λ =",
}

#: How an order reads between two names.
PLACES: Final[dict[Order, str]] = {"lower": "below", "alike": "like", "higher": "above", "unknown": "not known beside"}


def line(results: Results, names: tuple[str, ...], metric: str) -> str:
    """Numbers of some lines at the first and the last x.

    Parameters
    ----------
    results : Results
        Of a figure.
    names : tuple of str
        Lines, in the order of the text.
    metric : str
        Which number.
    """
    first, last = results.x[0], results.x[-1]
    head = f"{SYMBOLS[results.figure.across]} {first:g}"
    if first == last:
        return f"{head}. " + "; ".join(f"{name}: {results.at(name, first, metric)}" for name in names)
    parts = [f"{name}: {results.at(name, first, metric)} to {results.at(name, last, metric)}" for name in names]
    return f"{head} to {last:g}. " + "; ".join(parts)
