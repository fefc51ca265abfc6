"""A fitted estimator as a folder: one model file per entity, and a record that names them by their hashes.

The record is written last, so a folder without it, or with other bytes than it names, is not a saved estimator. There
is no pickle: model files are those of `Model.save`, and the record is JSON.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from twofold.checks import is_hash
from twofold.entity.model import Model
from twofold.errors import BadModel, DataError, TwofoldError
from twofold.estimator.score import Columns
from twofold.federation.plan import Plan
from twofold.storage.files import make_folder, read_limited, write_whole

if TYPE_CHECKING:
    from twofold.estimator.recommender import FederatedRecommender

__all__ = ["load_recommender", "save_recommender"]

SCHEMA: Final = "twofold.recommender/1"
RECORD: Final = "recommender.json"
#: Bytes of a record: ten million entities are not fitted in one process.
_LARGEST: Final = 64 * 1024**2
#: Parameters that can be written down; an executor cannot.
_KEPT: Final = ("local", "strength", "rng", "threads")


def save_recommender(fitted: FederatedRecommender, path: str | PathLike[str]) -> Path:
    """Write a fitted estimator into a folder, which is made; one that `save` wrote before is written again.

    Raises
    ------
    DataError
        The folder holds something else, or a label is neither text nor a whole number.
    """
    folder = Path(path)
    labels = list(fitted.models_)
    if wrong := [label for label in labels if type(label) not in (str, int)]:
        raise DataError(
            "an estimator is saved with labels of text or whole numbers only.",
            found=f"a label of type {type(wrong[0]).__name__}",
            fix="fit with an entity column of text",
            parameter="entity",
        )
    if folder.is_dir() and any(folder.iterdir()) and not (folder / RECORD).is_file():
        raise DataError(
            "the folder holds something else.",
            found=folder.name,
            expected="a new folder, or one that save wrote before",
            parameter="path",
        )
    make_folder(folder)
    (folder / RECORD).unlink(missing_ok=True)  # until the new one is whole, the folder is not a saved estimator
    entities = []
    for number, label in enumerate(labels):
        name = f"{number:06}.model"
        written = fitted.models_[label].save(folder / name)
        entities.append({"label": label, "file": name, "sha256": _digest(written)})
    record = {
        "schema": SCHEMA,
        "plan": fitted.plan.as_dict(),
        "parameters": {name: getattr(fitted, name) for name in _KEPT},
        "columns": asdict(fitted.columns_),
        "feature_names": [str(name) for name in fitted.feature_names_in_],
        "private": fitted.private_,
        "entities": entities,
    }
    write_whole(folder / RECORD, json.dumps(record, indent=1, ensure_ascii=False).encode(), mode=0o600)
    return folder


def load_recommender(path: str | PathLike[str]) -> dict[str, Any]:
    """Read a folder of `save_recommender`: the parameters, and what a fit leaves.

    Raises
    ------
    BadModel
        The folder is incomplete, changed or foreign.
    """
    folder = Path(path)
    try:
        record = json.loads(read_limited(folder / RECORD, _LARGEST))
        if record["schema"] != SCHEMA:
            raise _bad("written by an incompatible version of twofold, or by another program")
        plan = Plan.from_dict(record["plan"])
        models = dict(_model(folder, one, plan) for one in record["entities"])
        given = {name: record["parameters"][name] for name in _KEPT}
        return {
            "parameters": {"plan": plan, **given},
            "models": models,
            "columns": Columns(**record["columns"]),
            "names": [str(name) for name in record["feature_names"]],
            "private": record["private"] is True,
        }
    except BadModel:
        raise
    except TwofoldError as error:
        raise _bad(error.summary) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _bad("a record that is damaged") from None


def _model(folder: Path, entity: dict[str, Any], plan: Plan) -> tuple[Any, Model]:
    name = entity["file"]
    if Path(name).name != name or not is_hash(entity["sha256"]):
        raise _bad("a name that leaves the folder")
    if _digest(folder / name) != entity["sha256"]:
        raise _bad("a model with other bytes than those that were saved")
    found = Model.load(folder / name)
    if found.plan is None or found.plan.hash != plan.hash or type(entity["label"]) not in (str, int):
        raise _bad("a model of another plan")
    return entity["label"], found


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        raise _bad("a model that is missing or cannot be read") from None


def _bad(found: str) -> BadModel:
    return BadModel(
        "this is not a saved estimator.",
        found=found,
        expected="a folder that FederatedRecommender.save wrote",
        fix="save it again",
        parameter="path",
    )
