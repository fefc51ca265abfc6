"""Round 2 at an entity: its own model, pulled towards the shared item factors or fitted alone. Nothing leaves."""

from __future__ import annotations

import warnings
from dataclasses import replace
from os import PathLike
from pathlib import Path

from scipy import sparse

from twofold.data.bounds import Bounds
from twofold.data.ratings import Ratings
from twofold.data.scan import Scan
from twofold.entity.adapt import Adapted, Local, Strength, adapted
from twofold.entity.candidates import FitSettings
from twofold.entity.model import Model
from twofold.entity.models.side import Rest
from twofold.entity.own import own_people
from twofold.errors import NotForRealUse, PlanMismatch, ProtocolError
from twofold.features import Features
from twofold.federation.factors import ItemFactors, decode_factors, load_factors
from twofold.federation.plan import Plan

__all__ = ["fit_alone", "fitted_model", "read_factors", "settings_of"]

#: Most factors of an entity alone; what a plan says by default.
RANK = 20


def fit_alone(
    ratings: Ratings | sparse.sparray | sparse.spmatrix,
    *,
    features: Features | None = None,
    lower: float | None = None,
    bound: float | None = None,
    rank: int = RANK,
    local: Local = "auto",
    seed: int = 0,
    threads: int | None = None,
    name: str = "alone",
) -> Model:
    """Fit an entity's own model with nothing shared: the baseline that a federation has to beat.

    The kind of model is chosen by validation on the entity's own users, as `Entity.personalize` does it; with the same
    bounds, rank, seed and features both give the same model.

    Parameters
    ----------
    ratings : Ratings, or a SciPy sparse matrix of users by items
        Private: what the entity's users had or rated. It stays inside. A matrix is read as counts, with the numbers of
        rows and columns for ids; `Ratings.from_matrix` reads it in other ways.
    features : Features, optional
        Public table that describes the items and may pull the model.
    lower, bound : float, optional
        Smallest and largest value; values outside are cut. By default nothing is cut: counts begin at 0, and the
        rest follows from the ratings.
    rank : int
        Most factors.
    local : {"auto", "factors", "item-item", "patterns", "features"}
        Kind of model.
    seed : int
        Seed of the held-out entries and of random starts: the same seed gives the same model.
    threads : int, optional
        All processors by default. The result does not depend on it.
    name : str
        Name of the model.

    Returns
    -------
    Model
        A model like any other.

    Privacy
    -------
    Nothing leaves, so nothing is spent. The model is private, as the ratings are.

    Paper
    -----
    The individual models that the paper compares with.

    Examples
    --------
    >>> import polars as pl
    >>> from twofold.data.catalog import Catalog
    >>> from twofold.data.read import read_ratings
    >>> catalog = Catalog(["creatinine", "heparin", "lactate"])
    >>> table = pl.DataFrame({"user": ["a", "a", "b", "b"], "item": ["heparin", "lactate"] * 2, "value": [1, 2, 3, 1]})
    >>> ratings = read_ratings(table, catalog, user="user", item="item", value="value", feedback="counts")
    >>> model = fit_alone(ratings)
    >>> model, [one.item for one in model.recommend({"heparin": 2}, n=1)]
    (Model('alone', 3 items, popularity, alone), ['lactate'])
    """
    given = ratings if isinstance(ratings, Ratings) else Ratings.from_matrix(ratings)
    if not given.n_entries and (given.notes.unknown_items_dropped or given.notes.missing_dropped):
        message = "every row was dropped when the table was read: is this the right item list, and the right column?"
        warnings.warn(message, stacklevel=2)
    values, counts = given.matrix.data, given.feedback == "counts"
    least = float(0.0 if counts or not values.size else values.min()) if lower is None else lower
    most = float(values.max() if values.size else least) if bound is None else bound
    settings = FitSettings(
        feedback=given.feedback, lower=least, bound=most, rank=rank, seed=seed, threads=threads, features=features
    )
    cut = lower is not None or bound is not None
    history = Bounds(bound=most, lower=least).apply(given)[0] if cut else given
    return _fitted(name, history, None, settings, plan=None, local=local)


def read_factors(factors: ItemFactors | bytes | str | PathLike[str], plan: Plan) -> ItemFactors:
    """Read item factors in any form and check that they belong to the plan.

    Parameters
    ----------
    factors : ItemFactors, bytes or path
        What the server published.
    plan : Plan
        What was agreed.
    """
    found = _decoded(factors, plan)
    if (found.plan, found.catalog) != (plan.hash, plan.catalog.hash):
        other = "plan" if found.catalog == plan.catalog.hash else "catalog"
        raise PlanMismatch(
            f"these item factors belong to another {other}.",
            found=f"plan {found.plan[:12]}, catalog {found.catalog[:12]}",
            expected=f"plan {plan.hash[:12]}, catalog {plan.catalog.hash[:12]}",
            fix="ask the server for the factors of this plan, or use the plan they were made with",
            parameter=other,
        )
    if found.n_items != plan.n_items or found.rank > plan.rank:  # a lower rank: too few prototypes came in for more
        raise PlanMismatch(
            "these item factors do not have the plan's size.",
            found=f"{found.n_items:,} items, rank {found.rank}",
            expected=f"{plan.n_items:,} items, rank at most {plan.rank}",
            parameter="factors",
        )
    if not found.private and not plan.simulation:
        raise NotForRealUse(
            "these item factors are not private.",
            expected="factors made of messages with a proof, as the plan says",
            fix="ask the server how they were made; Plan(..., simulation=True) is for simulations",
            parameter="factors",
        )
    return found


def _decoded(factors: ItemFactors | bytes | str | PathLike[str], plan: Plan) -> ItemFactors:
    if isinstance(factors, ItemFactors):
        return factors
    if isinstance(factors, bytes | bytearray | memoryview):
        return decode_factors(bytes(factors), plan)
    if isinstance(factors, str | PathLike):
        return load_factors(Path(factors), plan)
    raise ProtocolError(
        "not item factors.",
        found=f"a {type(factors).__name__}",
        expected="ItemFactors, their bytes, or a path",
        parameter="factors",
    )


def fitted_model(
    name: str,
    ratings: Ratings | Scan,
    plan: Plan,
    factors: ItemFactors | bytes | str | PathLike[str] | None,
    *,
    local: Local = "auto",
    strength: Strength = "auto",
    threads: int | None = None,
) -> Model:
    """Pull a local model towards the shared factors; see `Entity.personalize`.

    Privacy
    -------
    Values are cut to the plan's bounds, so that the local model and the shared factors use the same scale. The
    number of items is not cut: nothing leaves.
    """
    settings = settings_of(plan, threads=threads)
    shared = None if factors is None else read_factors(factors, plan)
    if isinstance(ratings, Scan):
        own = own_people(ratings, plan)
        made = _fitted(name, own.sample, shared, settings, plan=plan, local=local, strength=strength, rest=own.rest)
        # The histories stay in the files: a model that held some of them would know some people and not others.
        return replace(made, history=own.sample.take([]), note=made.note + own.words)
    history = Bounds(bound=plan.bound, lower=plan.lower).apply(ratings)[0]
    return _fitted(name, history, shared, settings, plan=plan, local=local, strength=strength)


def settings_of(plan: Plan, *, threads: int | None = None) -> FitSettings:
    """Give the numbers of a plan that a local model needs."""
    return FitSettings(
        feedback=plan.feedback,
        lower=plan.lower,
        bound=plan.bound,
        rank=plan.rank,
        seed=plan.seed,
        threads=threads,
        features=plan.features_table,
    )


def _fitted(
    name: str,
    history: Ratings,
    shared: ItemFactors | None,
    settings: FitSettings,
    *,
    plan: Plan | None,
    local: Local,
    strength: Strength = "auto",
    rest: Rest | None = None,
) -> Model:
    if history.n_entries == 0 and settings.feedback == "ratings" and (local, strength) == ("auto", "auto"):
        found = _unjudged(history, shared, settings)
    else:
        found = adapted(history.matrix, shared, settings, local=local, strength=strength, rest=rest)
    return Model(
        entity=name,
        catalog=history.catalog,
        history=history,
        scorer=found.scorer,
        plan=plan,
        factors_hash="" if shared is None else shared.hash,
        private=shared is None or shared.private,
        strength=found.strength,
        note=found.note,
        validation=tuple(found.table),
        lower=settings.lower,
        bound=settings.bound,
    )


def _unjudged(history: Ratings, shared: ItemFactors | None, settings: FitSettings) -> Adapted:
    """Take the shared model where there is no rating to hold out; for the entity only."""
    if shared is None:
        note = "this entity has no entries and nothing was shared: every item scores the same."
        return replace(adapted(history.matrix, None, settings), table=(), note=note)
    note = "this entity has no entries of its own to judge by: the shared model as it came."
    return replace(adapted(history.matrix, shared, settings, local="factors", strength="shared"), table=(), note=note)
