"""Mechanisms, one file each: integers and a source of randomness in, a released value with its event out.

=====================  =====================================================  ===================
mechanism              what it releases                                       promise
=====================  =====================================================  ===================
DiscreteLaplace        integers plus noise                                    pure ε
DiscreteGaussian       integers plus noise                                    zCDP
DiscreteLaplaceShare   one party's part; H parties sum to exactly one noise   pure ε, of the sum
DiscreteGaussianShare  one party's part                                       zCDP, of the sum
GumbelTop              which s scores are largest                             pure ε
ExponentialMechanism   which one candidate                                    pure ε
PrivateThreshold       which cells of a partition are full                    pure ε
=====================  =====================================================  ===================

All are exact in law: `lazy` bounds exponentials in integer arithmetic and compares random bits with such bounds,
`SymmetricNoise` and `selection` are the engines.
"""

from twofold.privacy.events import Released
from twofold.privacy.mechanisms.gaussian import DiscreteGaussian, DiscreteGaussianShare
from twofold.privacy.mechanisms.laplace import DiscreteLaplace, DiscreteLaplaceShare
from twofold.privacy.mechanisms.selection import ExponentialMechanism, GumbelTop
from twofold.privacy.mechanisms.threshold import PrivateThreshold, least_threshold

__all__ = [
    "DiscreteGaussian",
    "DiscreteGaussianShare",
    "DiscreteLaplace",
    "DiscreteLaplaceShare",
    "ExponentialMechanism",
    "GumbelTop",
    "PrivateThreshold",
    "Released",
    "least_threshold",
]
