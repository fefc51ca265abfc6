"""Words and numbers of the pages of reproduced experiments."""

from __future__ import annotations

import math
from typing import Final

from studies.paper.results import Point

__all__ = ["AXES", "METRICS", "cell", "metric_title", "metric_words", "x_text"]

#: What is varied, in words, and whether powers of ten are drawn across.
AXES: Final = {
    "rank": ("latent factors", False),
    "n_prototypes": ("k", False),
    "epsilon": ("ε", True),
    "n_entities": ("entities", False),
    "iterations": ("iterations", True),
    "regularization": ("λ", True),
}
METRICS: Final = {
    "rmse_pooled": "test RMSE, pooled",
    "rmse_per_entity_mean": "test RMSE, average over entities",
    "rmse_train_pooled": "train RMSE, pooled",
    "rmse_train_per_entity_mean": "train RMSE, average over entities",
    "mean_rank": "mean rank",
    "mean_rank_unseen": "mean rank among unseen items",
    "ndcg": "nDCG@10",
    "rmse_table": "RMSE over the fitted table",
    "rmse_fresh": "RMSE on a fresh draw",
    "objective": "k-means objective",
    "objective_ratio": "objective over that of one mean",
    "centres_used": "centres nearest to somebody",
    "megabytes": "megabytes sent",
    "rounds": "rounds",
    "seconds_to_fit": "seconds to fit",
}

_COUNTS: Final = ("rounds", "centres_used")


def metric_words(metric: str) -> str:
    """A metric in words.

    Examples
    --------
    >>> metric_words("ndcg")
    'nDCG@10'
    """
    return METRICS.get(metric, metric)


def metric_title(metric: str) -> str:
    """A metric as a heading.

    Examples
    --------
    >>> metric_title("ndcg"), metric_title("rounds")
    ('nDCG@10', 'Rounds')
    """
    words = metric_words(metric)
    return words if words[1:2].isupper() else words[:1].upper() + words[1:]


def x_text(x: float) -> str:
    """A value of what is varied.

    Examples
    --------
    >>> x_text(0.005), x_text(1000.0)
    ('0.005', '1,000')
    """
    return f"{x:,.0f}" if float(x).is_integer() else f"{x:g}"


def cell(point: Point, metric: str = "") -> str:
    """A number for a table; very large ones in powers of ten, counts without meaningless digits.

    Parameters
    ----------
    point : Point
        The number.
    metric : str
        Which number it is.

    Examples
    --------
    >>> cell(Point(mean=0.25, spread=0.01)), cell(Point(mean=4.957e7)), cell(Point(mean=float("nan")))
    ('0.250 ± 0.010', '4.957e+07', '–')
    >>> cell(Point(mean=2.0), "rounds"), cell(Point(mean=1.5), "centres_used")
    ('2', '1.5')
    """
    if not math.isfinite(point.mean):
        return "–"
    if abs(point.mean) >= 1e5:
        return f"{point.mean:.3e}"
    if metric in _COUNTS:
        return f"{point.mean:.3g}" if point.mean < 1000 else f"{point.mean:,.0f}"
    digits = 3 if abs(point.mean) < 100 else 1
    tail = f" ± {point.spread:.{digits}f}" if math.isfinite(point.spread) else ""
    return f"{point.mean:.{digits}f}{tail}"
