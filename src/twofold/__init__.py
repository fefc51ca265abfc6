"""Federated recommendations in two messages, each with a privacy proof.

The names below are in the order of the flow: read, bound, split, enrol, agree on a plan, two rounds, the numeric core.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev1"

# Loaded when first used (SPEC 1), so that `import twofold` takes milliseconds.
_HOMES = {
    "Catalog": "twofold.data.catalog",
    "Ratings": "twofold.data.ratings",
    "read_ratings": "twofold.data.read",
    "read_meds": "twofold.data.formats.meds",
    "meds_catalog": "twofold.data.formats.meds",
    "read_omop": "twofold.data.formats.omop",
    "omop_catalog": "twofold.data.formats.omop",
    "omop_features": "twofold.data.formats.omop",
    "omop_sql": "twofold.data.formats.omop",
    "read_recbole": "twofold.data.formats.recbole",
    "recbole_catalog": "twofold.data.formats.recbole",
    "Scan": "twofold.data.scan",
    "scan": "twofold.data.scan",
    "Bounds": "twofold.data.bounds",
    "Federation": "twofold.data.federation",
    "holdout": "twofold.data.split",
    "leave_n_out": "twofold.data.split",
    "recorded_holdout": "twofold.data.split",
    "Features": "twofold.features",
    "read_features": "twofold.data.features",
    "new_keys": "twofold.identity.keystore",
    "Identity": "twofold.identity.keys",
    "Secrets": "twofold.identity.keys",
    "Roster": "twofold.identity.roster",
    "Plan": "twofold.federation.plan",
    "OperatorSum": "twofold.federation.secure",
    "SecureSum": "twofold.federation.secure",
    "plan_words": "twofold.federation.agreement",
    "Agreements": "twofold.federation.agreement",
    "Entity": "twofold.entity.agent",
    "Person": "twofold.entity.person",
    "NewLedger": "twofold.entity.account",
    "NothingExpected": "twofold.entity.account",
    "Server": "twofold.server.factorize",
    "Operator": "twofold.server.operator",
    "SecureServer": "twofold.server.secure",
    "ItemFactors": "twofold.federation.factors",
    "Model": "twofold.entity.model",
    "fit_alone": "twofold.entity.personalize",
    "evaluate": "twofold.entity.evaluate",
    "simulate": "twofold.simulation.run",
    "FederatedRecommender": "twofold.estimator",
    "masked_nmf": "twofold.algorithms.masked_nmf",
    "fold_in": "twofold.algorithms.fold_in",
    "top_items": "twofold.algorithms.top_items",
    "kmeans": "twofold.algorithms.kmeans",
    "TwofoldError": "twofold.errors",
}

if TYPE_CHECKING:
    from twofold.algorithms.fold_in import fold_in
    from twofold.algorithms.kmeans import kmeans
    from twofold.algorithms.masked_nmf import masked_nmf
    from twofold.algorithms.top_items import top_items
    from twofold.data.bounds import Bounds
    from twofold.data.catalog import Catalog
    from twofold.data.features import read_features
    from twofold.data.federation import Federation
    from twofold.data.formats.meds import meds_catalog, read_meds
    from twofold.data.formats.omop import omop_catalog, omop_features, omop_sql, read_omop
    from twofold.data.formats.recbole import read_recbole, recbole_catalog
    from twofold.data.ratings import Ratings
    from twofold.data.read import read_ratings
    from twofold.data.scan import Scan, scan
    from twofold.data.split import holdout, leave_n_out, recorded_holdout
    from twofold.entity.account import NewLedger, NothingExpected
    from twofold.entity.agent import Entity
    from twofold.entity.evaluate import evaluate
    from twofold.entity.model import Model
    from twofold.entity.person import Person
    from twofold.entity.personalize import fit_alone
    from twofold.errors import TwofoldError
    from twofold.estimator import FederatedRecommender
    from twofold.features import Features
    from twofold.federation.agreement import Agreements, plan_words
    from twofold.federation.factors import ItemFactors
    from twofold.federation.plan import Plan
    from twofold.federation.secure import OperatorSum, SecureSum
    from twofold.identity.keys import Identity, Secrets
    from twofold.identity.keystore import new_keys
    from twofold.identity.roster import Roster
    from twofold.server.factorize import Server
    from twofold.server.operator import Operator
    from twofold.server.secure import SecureServer
    from twofold.simulation.run import simulate

__all__ = [
    "Agreements",
    "Bounds",
    "Catalog",
    "Entity",
    "Features",
    "FederatedRecommender",
    "Federation",
    "Identity",
    "ItemFactors",
    "Model",
    "NewLedger",
    "NothingExpected",
    "Operator",
    "OperatorSum",
    "Person",
    "Plan",
    "Ratings",
    "Roster",
    "Scan",
    "Secrets",
    "SecureServer",
    "SecureSum",
    "Server",
    "TwofoldError",
    "evaluate",
    "fit_alone",
    "fold_in",
    "holdout",
    "kmeans",
    "leave_n_out",
    "masked_nmf",
    "meds_catalog",
    "new_keys",
    "omop_catalog",
    "omop_features",
    "omop_sql",
    "plan_words",
    "read_features",
    "read_meds",
    "read_omop",
    "read_ratings",
    "read_recbole",
    "recbole_catalog",
    "recorded_holdout",
    "scan",
    "simulate",
    "top_items",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'twofold' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*_HOMES, *(name for name in globals() if name.startswith("__"))])
