"""Plain numeric functions that stand alone: arrays in, arrays out. Importing them does not import numba.

Imported here and not on demand: each function has the name of its module, and an import of the module alone would
put the module in the function's place.
"""

from twofold.algorithms.fold_in import FoldIn, fold_in
from twofold.algorithms.kmeans import kmeans
from twofold.algorithms.masked_nmf import MaskedNMFResult, masked_nmf
from twofold.algorithms.top_items import top_items

__all__ = [
    "FoldIn",
    "MaskedNMFResult",
    "fold_in",
    "kmeans",
    "masked_nmf",
    "top_items",
]
