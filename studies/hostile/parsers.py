"""Every parser of files that a stranger may send or a disk may damage, with valid samples.

Here are plans, messages, models and tables; `identities`, `books`, `formats` and `shares` hold the others.
"""

from __future__ import annotations

import gzip
import io
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from scipy import sparse

from studies.hostile import books, formats, identities, shares  # noqa: F401  # each registers its parsers
from studies.hostile.insider import resign_message
from studies.hostile.mutate import reseal
from studies.hostile.plans import COUNTS, FEATURES, KINDS, MESSAGES, catalog, factors, plan, release
from studies.hostile.registry import PARSERS, Parser, register
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.features import read_features
from twofold.data.ratings import Ratings
from twofold.data.read import read_ratings
from twofold.entity.artefact import encode_model
from twofold.entity.model import Model
from twofold.entity.models.blend import Scorer
from twofold.entity.models.factors import FactorScorer
from twofold.entity.models.item_item import ItemItemScorer
from twofold.entity.models.patterns import PatternScorer
from twofold.entity.models.ridge import weights_from_rows
from twofold.federation.agreement import decode_agreed, decode_agreement
from twofold.federation.factors import load_factors
from twofold.federation.key_messages import decode_answer, decode_participants, decode_shares, decode_survivors
from twofold.federation.messages import decode_release, is_cut, read_header
from twofold.federation.plan import Plan
from twofold.federation.plan_file import catalog_path, plan_text, read_plan
from twofold.federation.tables import load_features, save_features
from twofold.privacy.budget import ZCDP, ApproxDP, NotPrivate, PureDP, guarantee_from_dict
from twofold.storage.files import read_limited

__all__ = ["PARSERS", "Parser", "register"]

#: More than any file of the samples can become.
_MOST: Final = 1 << 30


def _use_plan(path: Path) -> object:
    found = read_plan(path)
    catalog_path(path)
    if found.features is None:  # the table itself is not beside the plan
        _ = found.spec, found.across
    return found.hash, plan_text(found)


register(
    Parser(
        name="plan",
        form="toml",
        samples=lambda: [
            plan_text(plan(kind), files={"catalog": "items.csv", "features": "f", "roster": "r"}).encode()
            for kind in KINDS
        ],
        parse=_use_plan,
        file="plan.toml",
    )
)
register(
    Parser(
        name="guarantee",
        form="json",
        samples=lambda: [
            json.dumps(one.as_dict()).encode()
            for one in (
                PureDP(epsilon=1),
                ApproxDP(epsilon=1, delta="1/7"),
                ZCDP(rho="1/3"),
                NotPrivate(reason="exact"),
            )
        ],
        parse=lambda path: _use_guarantee(json.loads(path.read_bytes())) if _is_json(path) else None,
        opens=False,
    )
)


def _is_json(path: Path) -> bool:
    """Whether the standard library reads the file at all: this parser begins with plain records."""
    try:
        json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    return True


def _use_guarantee(record: Any) -> object:
    found = guarantee_from_dict(record)
    return found.as_dict(), found.replace_one()


def _read_release(path: Path, kind: str) -> object:
    data = read_limited(path, _MOST)
    is_cut(data)
    header = read_header(data)
    return header, decode_release(data, plan(kind)).receipt


for _kind in ("plain", "gram", "ratings", "signed"):
    _who = ("site-0", "site-1") if _kind == "signed" else ("st-anna", "st-anna" if _kind == "gram" else "st-bern")
    register(
        Parser(
            name=f"message {_kind}",
            form="container",
            samples=lambda kind=_kind, who=_who: [release(kind, name) for name in who],  # type: ignore[misc]
            parse=lambda path, kind=_kind: _read_release(path, kind),  # type: ignore[misc]
            insider=resign_message if _kind == "signed" else reseal,
            sealed=True,
        )
    )

_DECODERS: Final[dict[str, Callable[[bytes, Plan], object]]] = {
    "agreement": decode_agreement,
    "agreed": decode_agreed.__wrapped__,  # what it has seen it would not check again
    "shares": decode_shares,
    "participants": decode_participants,
    "masked release": decode_release,
    "survivors": decode_survivors,
    "answer": decode_answer,
}
for _step, (_kind, _samples) in MESSAGES.items():
    register(
        Parser(
            name=_step,
            form="container",
            samples=_samples,
            parse=lambda path, step=_step, kind=_kind: _DECODERS[step](read_limited(path, _MOST), plan(kind)),  # type: ignore[misc]
            insider=resign_message,
            sealed=True,
        )
    )
for _kind in ("plain", "gram", "signed"):
    register(
        Parser(
            name=f"factors {_kind}",
            form="container",
            samples=lambda kind=_kind: [factors(kind, 0), factors(kind, 1)],  # type: ignore[misc]
            parse=lambda path, kind=_kind: load_factors(path, plan(kind)).hash,  # type: ignore[misc]
            insider=resign_message if _kind == "signed" else reseal,
            sealed=True,
        )
    )


def _feature_files() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        save_features(FEATURES, f"{folder}/f")
        return [Path(folder, "f").read_bytes()]


register(
    Parser(
        name="plan's features",
        form="container",
        samples=_feature_files,
        parse=lambda path: load_features(path).hash,
        sealed=True,
    )
)


def _models() -> list[bytes]:
    rows = np.clip(COUNTS, 0, 5)
    weights = weights_from_rows(rows, np.full(9, 2.0))
    scorers: list[Scorer] = [
        FactorScorer(np.random.default_rng(6).gamma(1.0, 1.0, (9, 3)), feedback="counts", cold_start=rows.mean(axis=0)),
        ItemItemScorer(weights, means=rows.mean(axis=0), feedback="counts", shrinkage=1.0),
        PatternScorer(
            loadings=np.random.default_rng(6).normal(size=(9, 2)).astype(np.float32),
            means=rows.mean(axis=0),
            doubts=np.ones(9, np.float32),
            noise=1.0,
            offset=0.5,
            kind="patterns",
        ),
    ]
    table = ({"kind": "factors", "strength": 0.5, "loss": 0.5, "error": 0.1, "taken": True},)
    users: list[Sequence[Any]] = [
        [f"user-{at}" for at in range(12)],
        range(12),
        [f"u{at}".encode() for at in range(12)],
    ]
    return [
        encode_model(
            Model(
                entity="st-anna",
                catalog=catalog(),
                history=Ratings(sparse.csr_array(COUNTS), Identifiers(ids), catalog(), "counts"),
                scorer=scorer,
                plan=under,
                factors_hash="ab" * 32,
                private=True,
                strength=0.5,
                note="better",
                validation=table,
                lower=0.0,
                bound=5.0,
            )
        )
        for scorer, ids, under in zip(scorers, users, (plan("plain"), None, plan("gram")), strict=True)
    ]


def _use_model(path: Path) -> object:
    with np.errstate(all="ignore"):
        model = Model.load(path)
        first = model.history.user_ids[0] if model.history.n_users else {}
        found = model.recommend(first, 3)
        for one in found[:1]:
            model.similar_items(one.item, 2)
            str(model.explain(first, one.item))
        return model.summary(), repr(model), model.recommend({}), model.recommend_all(n=2), encode_model(model)


register(Parser(name="model", form="container", samples=_models, parse=_use_model, sealed=True))


_CATALOGS: Final = (
    b"item\n" + b"".join(f"item-{at}\n".encode() for at in range(60)),
    b"item,title,n\n" + b"".join(f'{at},"a ""film"", {at}",{at / 2}\n'.encode() for at in range(60)),
)
_TABLES: Final = (
    b"item,kind\n" + b"".join(f"item-{at},x|y{at % 3}\n".encode() for at in range(9)),
    b"item,a,b\n" + b"".join(f"item-{at},{at},{-at}\n".encode() for at in range(9)),
)
_RATINGS: Final = (
    b"user,item,value\n" + b"".join(f"patient-{at % 7},item-{at % 9},{at % 5}\n".encode() for at in range(60)),
    b"user,item,value\n" + b"".join(f"{at % 7},item-{at // 7},{at / 2}\n".encode() for at in range(60)),
)


def _as_parquet(samples: Sequence[bytes]) -> list[bytes]:
    found = []
    for sample in samples:
        for codec in ("zstd", "uncompressed", "snappy", "gzip"):
            buffer = io.BytesIO()
            pl.read_csv(sample).write_parquet(buffer, compression=codec, statistics=codec != "snappy")
            found.append(buffer.getvalue())
    return found


_READERS: Final[dict[str, tuple[Sequence[bytes], Callable[[Path], object]]]] = {
    "catalog": (_CATALOGS, lambda path: Catalog.read(path).hash),
    "features": (_TABLES, lambda path: read_features(path, catalog()).hash),
    "ratings": (
        _RATINGS,
        lambda path: read_ratings(path, catalog(), feedback="counts", duplicates="sum", unknown_items="drop").digest(),
    ),
}
for _name, (_files, _read) in _READERS.items():
    register(
        Parser(name=f"{_name}.csv", form="table", samples=lambda files=_files: files, parse=_read)  # type: ignore[misc]
    )
    register(
        Parser(
            name=f"{_name}.csv.gz",
            form="gzip" if _name == "ratings" else "public gzip",  # an entity's own table may have any size
            samples=lambda files=_files: [gzip.compress(one, mtime=0) for one in files],  # type: ignore[misc]
            parse=_read,
        )
    )
    register(
        Parser(
            name=f"{_name}.parquet",
            form="bytes",
            samples=lambda files=_files: _as_parquet(files),  # type: ignore[misc]
            parse=_read,
        )
    )
