"""FederatedRecommender: the two rounds and the local models behind fit and recommend.

It keeps the conventions of scikit-learn without importing it: parameters by name, cloning, tags, and an error that
scikit-learn's own handlers know.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.data.catalog import Catalog
from twofold.data.federation import Federation, federation_of_matrix, read_federation
from twofold.data.read import DuplicateRule, UnknownRule
from twofold.entity.model import Model, Recommendation
from twofold.errors import BadIdentifier, BadParameter, CatalogError, NotFitted, PlanMismatch, Set, UnknownUser
from twofold.estimator.score import Columns, column_names, known_model, mean_gain, negative_error, predicted_rows
from twofold.estimator.spending import GUARD, refuse_stale
from twofold.federation.plan import Plan
from twofold.html import block, facts_of
from twofold.simulation.members import Local, Strength, ledger_paths
from twofold.simulation.run import SimulationOptions, plan_names, refuse_what_is_not_real, run_members

__all__ = ["Conventions", "FederatedRecommender", "not_fitted"]

#: Fields of the plan are parameters of the estimator under this prefix.
_PLAN = "plan__"


class Conventions:
    """Parameters by name, cloning, repr and tags; `plan__FIELD` names a field of the plan."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Give the parameters by name; with `deep` the fields of the plan too."""
        found = {name: getattr(self, name) for name in self._names()}
        plan = found.get("plan")
        if deep and isinstance(plan, Plan):
            found |= {_PLAN + name: getattr(plan, name) for name in Plan.model_fields}
        return found

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters; unknown names are refused before anything is changed."""
        inner = {name.removeprefix(_PLAN): value for name, value in parameters.items() if name.startswith(_PLAN)}
        outer = {name: value for name, value in parameters.items() if not name.startswith(_PLAN)}
        unknown = (set(inner) - set(Plan.model_fields)) | (set(outer) - set(self._names()))
        if unknown:
            names = ", ".join(self._names())
            raise BadParameter(
                "the parameter is unknown.", found=", ".join(sorted(unknown)), expected=names, parameter=min(unknown)
            )
        if inner:
            outer["plan"] = outer.get("plan", self.get_params(deep=False)["plan"]).with_(**inner)
        for name, value in outer.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = {name: one.default for name, one in inspect.signature(type(self)).parameters.items()}
        changed = {name: value for name, value in self.get_params(deep=False).items() if value is not defaults[name]}
        parts = [f"{name}={_short(value)}" for name, value in changed.items()]
        return f"{type(self).__name__}({', '.join(parts)})"

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {name: _short(value) for name, value in self.get_params(deep=False).items()}
        if self.__sklearn_is_fitted__():
            told = "every message had a proof and real noise" if getattr(self, "private_", False) else "NOT PRIVATE"
            facts |= {"fitted": f"{len(getattr(self, 'models_', ())):,} entities", "promise": told}
        return block(type(self).__name__, [] if "fitted" in facts else ["not fitted"], facts_of(facts))

    def __sklearn_clone__(self) -> Self:
        """Make an unfitted copy; parameters are shared, since plans do not change and a pool cannot be copied."""
        return type(self)(**self.get_params(deep=False))

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `fit` succeeded."""
        return hasattr(self, "models_")

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn: it wants a table with named columns."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            input_tags=InputTags(two_d_array=False, string=True, categorical=True),
            non_deterministic=True,
        )

    @classmethod
    def _names(cls) -> list[str]:
        return list(inspect.signature(cls).parameters)


def _short(value: object) -> str:
    return f"<plan {value.name} {value.hash[:12]}>" if isinstance(value, Plan) else f"{value!r:.80}"


def not_fitted() -> NotFitted:
    """Make the error; if scikit-learn is loaded, the error is also its NotFittedError.

    Examples
    --------
    >>> raise not_fitted()
    Traceback (most recent call last):
    twofold.errors.NotFitted: this recommender was not fitted...
    """
    kind: type[NotFitted] = NotFitted
    theirs = getattr(sys.modules.get("sklearn.exceptions"), "NotFittedError", None)
    if theirs is not None:
        names = {"__module__": NotFitted.__module__, "__doc__": NotFitted.__doc__, "__reduce__": _reduce}
        kind = type("NotFitted", (NotFitted, theirs), names)
    return kind("this recommender was not fitted.", fix="fit(frame, entity=...) first")


def _reduce(_: NotFitted) -> tuple[object, ...]:
    return not_fitted, ()


class FederatedRecommender(Conventions):
    """Run both rounds for every entity of one table in this process, with scikit-learn's conventions.

    Parameters
    ----------
    plan : Plan
        Every public parameter. Single fields can be searched over as ``plan__rank`` and so on.
    catalog : Catalog, optional
        The public item list, if the plan was not made with it in this process (a plan keeps only its hash).
    ledgers : path, optional
        Folder with one ledger per entity; a missing one is created, with a `NewLedger` warning. Without a folder, a
        plan that is not a simulation is accounted for only until this process ends.
    local, strength
        As for `Entity.personalize`.
    executor : concurrent.futures.Executor, optional
        Where the entities' work runs; shared by clones.
    rng : int, optional
        Seed of the noise, for simulations only.
    threads : int, optional
        As for `simulate`.

    Attributes
    ----------
    models_ : mapping
        Entity label to its local model. Private.
    factors_ : ItemFactors
        What the server sent back.
    entities_ : tuple
        Labels found in the entity column.
    simulated_ : Simulated
        Bytes, seconds, names.
    private_ : bool
        Whether the messages had real noise and a proof.
    n_features_in_, feature_names_in_
        Columns of the frame.

    Privacy
    -------
    A fit with a plan that is not a simulation releases one message per entity, with real noise. Fitting the same plan
    to the same data again returns the stored messages and costs nothing. Another plan, other data or another entity
    name for user ids that were already in a release raises SilentSpending: a grid search would otherwise spend at every
    step.

    Examples
    --------
    >>> import polars as pl
    >>> catalog = Catalog(["creatinine", "heparin", "lactate"])
    >>> plan = Plan(catalog=catalog, feedback="counts", bound=5, max_items=2, rank=1, simulation=True)
    >>> visits = pl.DataFrame({
    ...     "hospital": ["north", "north", "south"], "user": ["a", "b", "c"],
    ...     "item": ["heparin", "lactate", "heparin"], "value": [1, 2, 3],
    ... })
    >>> fitted = FederatedRecommender(plan, rng=0, strength="shared", local="factors").fit(visits, entity="hospital")
    >>> len(fitted.recommend("a", n=2)), fitted.entities_, fitted.private_
    (2, ('north', 'south'), False)
    """

    def __init__(
        self,
        plan: Plan,
        *,
        catalog: Catalog | None = None,
        ledgers: str | PathLike[str] | None = None,
        local: Local = "auto",
        strength: Strength = "auto",
        executor: Executor | None = None,
        rng: int | None = None,
        threads: int | None = None,
    ) -> None:
        self.plan = plan
        self.catalog = catalog
        self.ledgers = ledgers
        self.local = local
        self.strength = strength
        self.executor = executor
        self.rng = rng
        self.threads = threads

    def fit(
        self,
        X: Any,
        y: object = None,  # noqa: ARG002 (scikit-learn's signature)
        *,
        entity: Any = "entity",
        user: str = "user",
        item: str = "item",
        value: str | None = "value",
        catalog: Catalog | None = None,
        duplicates: DuplicateRule = "error",
        unknown_items: UnknownRule = "error",
    ) -> Self:
        """Run both rounds over all entities of a frame.

        Parameters
        ----------
        X : frame, or SciPy sparse matrix
            Whatever `read_ratings` takes: a pandas, polars or Arrow table, a DuckDB relation, a path. Or a matrix of
            users by the items of the catalog; user ids are then the numbers of its rows.
        y : ignored
            For pipelines.
        entity, user, item, value : str
            Names of the columns; ``value=None`` makes every row count 1. For a matrix, `entity` has a label per row.
        catalog : Catalog, optional
            The public item list, if neither the plan nor the constructor has it.
        duplicates, unknown_items
            As for `read_ratings`.

        Raises
        ------
        SilentSpending
            The fit would spend a budget again. Nothing was drawn.
        BudgetExceeded
            A ledger in `ledgers` has no room for this plan.

        Warns
        -----
        NewLedger
            Once, if ledgers were missing in `ledgers` and are made.
        """
        refuse_what_is_not_real(self.plan, self.rng, accounted=True)
        named = "entity" if sparse.issparse(X) else entity
        columns = Columns(
            entity=named, user=user, item=item, value=value, duplicates=duplicates, unknown_items=unknown_items
        )
        if sparse.issparse(X):
            federation = federation_of_matrix(X, entity, self._catalog(catalog), feedback=self.plan.feedback)
        else:
            federation = self._read(X, columns, self._catalog(catalog))
        names = plan_names(federation)
        how = SimulationOptions(
            executor=self.executor, rng=self.rng, local=self.local, strength=self.strength, threads=self.threads,
            new_ledgers=True if self.ledgers is None else None,  # those of the guard are new by nature
        )  # fmt: skip
        done = run_members(federation, self.plan, names, self._ledgers(federation, names), how)
        self.simulated_, self.models_, self.factors_ = done, done.models, done.factors
        self.entities_, self.private_, self.columns_ = tuple(federation), done.private, columns
        self.feature_names_in_ = np.array(column_names(X, columns), dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        return self

    def recommend(
        self,
        user: Any,
        n: int = 10,
        *,
        entity: Any = None,
        exclude_seen: bool = True,
        items: Iterable[Any] | None = None,
    ) -> list[Recommendation]:
        """Recommend items to a user by id, or to a new person by their history.

        Parameters
        ----------
        user : id or mapping of item id to value
            As for `Model.recommend`.
        n, exclude_seen, items
            As for `Model.recommend`.
        entity : label, optional
            Whose user; needed for a new person, and for an id that several entities use.
        """
        model = self._model(user, entity)
        found: list[Recommendation] = model.recommend(user, n, exclude_seen=exclude_seen, items=items)
        return found

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Give the score of every (entity, user, item) row, in the order of the rows.

        For ratings a score is a predicted rating within the plan's range; for counts it only orders items. A user who
        was not in the fit is scored as somebody of whom nothing is known.
        """
        self._check_fitted()
        return predicted_rows(self.models_, X, self.columns_)

    def score(self, X: Any, y: object = None) -> float:  # noqa: ARG002 (scikit-learn's signature)
        """Score the predictions of held-out rows; higher is better.

        Parameters
        ----------
        X : frame
            Rows that were not in the fit, with the same columns.
        y : ignored
            For pipelines.

        Returns
        -------
        float
            For ratings the negative root mean squared error; for counts the mean nDCG of the first 10 recommendations.

        Privacy
        -------
        Computed from private rows: keep it where they are.
        """
        self._check_fitted()
        if self.plan.feedback == "ratings":
            return negative_error(self.models_, X, self.columns_)
        catalog = next(iter(self.models_.values())).catalog
        return mean_gain(self.models_, self._read(X, self.columns_, catalog))

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the fitted estimator into a folder: a model file per entity, and a record.

        Ledgers, the executor and `simulated_` are not part of it.

        Privacy
        -------
        The files hold everybody's histories; only their owner may read them. Keep them where the data are.
        """
        from twofold.estimator.store import save_recommender

        self._check_fitted()
        return save_recommender(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a folder of `save`: it recommends, predicts and scores as before, and can be fitted again."""
        from twofold.estimator.store import load_recommender

        found = load_recommender(path)
        made = cls(**found["parameters"])
        made.models_, made.columns_, made.private_ = found["models"], found["columns"], found["private"]
        made.entities_ = tuple(made.models_)
        made.catalog = next((model.catalog for model in made.models_.values()), None)
        made.feature_names_in_ = np.array(found["names"], dtype=object)
        made.n_features_in_ = len(made.feature_names_in_)
        return made

    def _check_fitted(self) -> None:
        if not hasattr(self, "models_"):
            raise not_fitted()

    def _catalog(self, given: Catalog | None) -> Catalog:
        found = next((one for one in (given, self.catalog, self.plan.catalog_items) if one is not None), None)
        if not isinstance(found, Catalog):
            raise CatalogError(
                "the plan holds only the hash of its catalog, and the list itself is needed.",
                fix='fit(frame, catalog=Catalog.read("items.csv"))',
                parameter="catalog",
            )
        if found.hash != self.plan.catalog.hash:
            raise PlanMismatch(
                "this is not the catalog of the plan.",
                found=f"catalog {found.hash[:12]}",
                expected=f"catalog {self.plan.catalog.hash[:12]}",
                parameter="catalog",
            )
        return found

    def _read(self, X: Any, columns: Columns, catalog: Catalog) -> Federation:
        return read_federation(X, catalog, feedback=self.plan.feedback, **columns.as_keywords())

    def _ledgers(self, federation: Federation, names: Mapping[Any, str]) -> Mapping[Any, Path | None]:
        if self.ledgers is not None:
            paths = ledger_paths(self.ledgers, names)
            refuse_stale(federation, self.plan, names, paths)
            return paths
        if self.plan.simulation:
            return dict.fromkeys(names)
        return GUARD.ledgers(federation, self.plan, names)

    def _model(self, user: Any, entity: Any) -> Model:
        self._check_fitted()
        if entity is not None:
            return known_model(self.models_, entity)
        if isinstance(user, Mapping):
            candidates = list(self.models_.values())
        else:
            candidates = [model for model in self.models_.values() if user in model.history.user_ids]
        if not candidates:
            raise UnknownUser(
                "no entity knows that user.",
                fix="a new person: recommend({item id: value}, entity=...)",
                parameter="user",
            )
        if len(candidates) > 1:
            raise BadIdentifier(
                "the entity is ambiguous.",
                expected="one entity",
                fix=Set("entity", "LABEL"),
                parameter="entity",
            )
        return candidates[0]
