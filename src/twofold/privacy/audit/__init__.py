"""Attempts to falsify a mechanism, and checks that the attempts work.

* `enumeration`: every outcome on a tiny domain, the exact loss;
* `lower_bound`: ε from below, from runs on two neighbours, for any callable;
* `one_run`: the same from one run with many canaries;
* `parameters`: nothing that shapes a release may differ between neighbours;
* `precision`: the floating-point attack on Laplace noise;
* `broken`: six mechanisms broken on purpose, which must be caught;
* `suite`: all of it, for ``twofold audit``.
"""

from twofold.privacy.audit.exact_checks import (
    differing_parameters,
    hockey_stick,
    loss_table,
    precision_attack,
    privacy_loss,
)
from twofold.privacy.audit.lower_bound import (
    LowerBound,
    OneRun,
    audit_one_run,
    clopper_pearson,
    epsilon_from_guesses,
    lower_bound,
    repeat,
)

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
