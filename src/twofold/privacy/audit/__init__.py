"""Attempts to falsify a mechanism, and proof that the attempts are worth something.

* `enumeration`: every outcome on a tiny domain, the exact loss;
* `lower_bound`: ε from below, from runs on two neighbours, for any callable;
* `one_run`: the same from one run with many canaries;
* `parameters`: nothing that shapes a release may differ between neighbours;
* `precision`: the floating-point attack on Laplace noise;
* `broken`: six mechanisms broken on purpose, which must be caught;
* `suite`: all of it, for ``twofold audit``.
"""

from twofold.privacy.audit.enumeration import hockey_stick, loss_table, privacy_loss
from twofold.privacy.audit.lower_bound import LowerBound, clopper_pearson, lower_bound, repeat
from twofold.privacy.audit.one_run import OneRun, audit_one_run, epsilon_from_guesses
from twofold.privacy.audit.parameters import differing_parameters
from twofold.privacy.audit.precision import precision_attack

__all__ = [
    "LowerBound",
    "OneRun",
    "audit_one_run",
    "clopper_pearson",
    "differing_parameters",
    "epsilon_from_guesses",
    "hockey_stick",
    "loss_table",
    "lower_bound",
    "precision_attack",
    "privacy_loss",
    "repeat",
]
