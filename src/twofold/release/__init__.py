"""The release mechanisms of round 1, one file each, all with the same signature.

>>> from twofold.release import ReleaseParameters, mechanism
>>> public = ReleaseParameters(n_items=3, n_users=1000, max_items=2, bound=5, n_prototypes=2, epsilon=1)
>>> mechanism("popularity").spec(public).event.kind
'discrete-laplace/1'
"""

from twofold.release.choose import NOT_PRIVATE, PRIVATE, mechanism
from twofold.release.content import Noise, Prototypes, Units, WeightedRows
from twofold.release.contract import Mechanism, ReleaseParameters

__all__ = [
    "NOT_PRIVATE",
    "PRIVATE",
    "Mechanism",
    "Noise",
    "Prototypes",
    "ReleaseParameters",
    "Units",
    "WeightedRows",
    "mechanism",
]
