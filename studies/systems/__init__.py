"""Every system that the evaluation compares, one file each, behind one interface.

>>> from twofold.data.sources import hospitals
>>> fitted = system("popularity-private", epsilon=1).fit(hospitals.load(0.001), feedback="counts", seed=0)
>>> fitted.epsilon, fitted.rounds
(1.0, 2)
"""

from studies.systems.base import Fitted, System, Traffic
from studies.systems.exchange import Release
from studies.systems.factorization import Factorization
from studies.systems.registry import NAMES, system

__all__ = ["NAMES", "Factorization", "Fitted", "Release", "System", "Traffic", "system"]
