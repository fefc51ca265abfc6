"""Every parser of files that a stranger may send or a disk may damage, with valid samples.

To add one: ``register(Parser(name=..., form=..., samples=..., parse=...))``. `parse` gets the path of a hostile file,
reads it as a command would and uses what it read; it may raise a TwofoldError and nothing else.
"""

from __future__ import annotations

import gzip
import io
import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from scipy import sparse

from studies.hostile.mutate import Form
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
from twofold.errors import LedgerBroken
from twofold.features import Features
from twofold.federation.factors import ItemFactors, encode_factors, load_factors
from twofold.federation.key_messages import (
    decode_answer,
    decode_participants,
    decode_shares,
    decode_survivors,
    encode_answer,
    encode_participants,
    encode_shares,
    encode_survivors,
    secure_terms,
)
from twofold.federation.messages import decode_release, encode_release, is_cut, read_header
from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.plan_file import catalog_path, plan_text, read_plan
from twofold.federation.secure import SecureSum
from twofold.federation.tables import load_features, save_features
from twofold.identity.keystore import KeyStore
from twofold.identity.roster import Roster
from twofold.privacy.budget import ZCDP, ApproxDP, NotPrivate, PureDP, guarantee_from_dict
from twofold.privacy.card import card_from_ledger
from twofold.privacy.events import ThresholdEvent
from twofold.privacy.ledger.book import Ledger
from twofold.privacy.ledger.record import digest, head_of, read_chain
from twofold.privacy.unit import Unit
from twofold.secure_sum import Keys, answer, share_secrets
from twofold.storage.files import read_limited

__all__ = ["PARSERS", "Parser", "register"]

#: More than any file of the samples can become.
_MOST: Final = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Parser:
    """One parser.

    Parameters
    ----------
    name : str
        In the table.
    form : str
        How its files are built; see `studies.hostile.mutate`.
    samples : callable
        Gives valid files.
    parse : callable
        Reads a file and uses what it holds.
    file : str
        Name of the hostile file.
    secret : str
        Stands in the samples, and in no error.
    """

    name: str
    form: Form
    samples: Callable[[], Sequence[bytes]]
    parse: Callable[[Path], object]
    file: str = "file"
    secret: str = "patient-"


PARSERS: Final[dict[str, Parser]] = {}


def register(parser: Parser) -> None:
    """Add a parser to the table."""
    PARSERS[parser.name] = parser


_COUNTS: Final = np.random.default_rng(5).poisson(1.0, (12, 9)).astype(np.float32)
_ITEMS: Final = tuple(f"item-{at}" for at in range(9))
_NAMES: Final = tuple(f"site-{number}" for number in range(4))
_FEATURES: Final = Features(matrix=np.arange(18).reshape(9, 2) % 3, names=("a", "b"))


@cache
def _catalog() -> Catalog:
    return Catalog(_ITEMS)


@cache
def _plan(kind: str = "plain") -> Plan:
    given: dict[str, Any] = {"catalog": CatalogKey.of(_catalog()), "bound": 5, "max_items": 3, "rank": 3}
    more: dict[str, dict[str, Any]] = {
        "plain": {"mechanism": "popularity", "entities": ("st-anna", "st-bern"), "n_entities": 2},
        "ratings": {"mechanism": "popularity", "feedback": "ratings", "lower": 1.0, "simulation": True},
        "gram": {"mechanism": "gram", "feedback": "counts", "n_entities": 2, "delta": 0},
        "features": {"mechanism": "features", "features": _FEATURES, "n_users": 100},
        "secure": {
            "mechanism": "gram",
            "secure": SecureSum(survivors=3, roster=Roster({name: one.public for name, one in _keys().items()})),
        },
    }
    return Plan(**(given | more[kind]))


@cache
def _keys() -> dict[str, Keys]:
    return {
        name: Keys(
            **{part: digest(f"{name} {part}".encode()).encode()[:32] for part in ("mask", "seal", "seed", "salt")}
        )
        for name in _NAMES
    }


def _use_plan(path: Path) -> object:
    plan = read_plan(path)
    catalog_path(path)
    if plan.features is None:  # the table itself is not beside the plan
        _ = plan.spec, plan.across
    return plan.hash, plan_text(plan)


register(
    Parser(
        name="plan",
        form="toml",
        samples=lambda: [
            plan_text(_plan(kind), files={"catalog": "items.csv", "features": "f", "secure": "r"}).encode()
            for kind in ("plain", "ratings", "gram", "features", "secure")
        ],
        parse=_use_plan,
        file="plan.toml",
    )
)
register(
    Parser(
        name="roster",
        form="json",
        samples=lambda: [Roster({name: one.public for name, one in _keys().items()}).text.encode()],
        parse=lambda path: Roster.read(path).hash,
    )
)
register(
    Parser(
        name="keys",
        form="json",
        samples=lambda: [one.to_bytes() for one in _keys().values()],
        parse=lambda path: KeyStore(path).keys.public,
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


def _release(kind: str, entity: str = "st-anna") -> bytes:
    plan = _plan(kind)
    made = plan.release_mechanism.release(_COUNTS, plan.parameters).value
    return encode_release(made, entity=entity, plan=plan)


def _read_release(path: Path, kind: str) -> object:
    data = read_limited(path, _MOST)
    is_cut(data)
    header = read_header(data)
    return header, decode_release(data, _plan(kind)).receipt


for _kind in ("plain", "gram", "ratings"):
    register(
        Parser(
            name=f"message {_kind}",
            form="container",
            samples=lambda kind=_kind: [_release(kind), _release(kind, "st-anna" if kind == "gram" else "st-bern")],  # type: ignore[misc]
            parse=lambda path, kind=_kind: _read_release(path, kind),  # type: ignore[misc]
        )
    )


@cache
def _sent() -> dict[str, Any]:
    return {name: share_secrets(one, name, secure_terms(_plan("secure"))) for name, one in _keys().items()}


def _answer() -> bytes:
    keys, terms = _keys()["site-0"], secure_terms(_plan("secure"))
    return encode_answer(answer(keys, "site-0", terms, _sent(), _NAMES, _NAMES[:3]), _plan("secure"))


_STEPS: Final[dict[str, tuple[Callable[[], Sequence[bytes]], Callable[[bytes, Plan], object]]]] = {
    "shares": (lambda: [encode_shares(one, _plan("secure")) for one in _sent().values()], decode_shares),
    "participants": (lambda: [encode_participants(_sent(), _plan("secure"))], decode_participants),
    "survivors": (lambda: [encode_survivors(_NAMES, _NAMES[:3], _plan("secure"))], decode_survivors),
    "answer": (lambda: [_answer()], decode_answer),
}
for _step, (_samples, _decode) in _STEPS.items():
    register(
        Parser(
            name=_step,
            form="container",
            samples=_samples,
            parse=lambda path, decode=_decode: decode(read_limited(path, _MOST), _plan("secure")),  # type: ignore[misc]
        )
    )


def _factors(kind: str, seed: int) -> bytes:
    plan, rng = _plan(kind), np.random.default_rng(seed)
    second: dict[str, Any] = {}
    if plan.spec.sum is not None:
        second = {"patterns": np.eye(9, 2, dtype=np.float32), "strengths": np.ones(2), "squares": np.ones(9)}
    made = ItemFactors(
        plan=plan.hash,
        catalog=plan.catalog.hash,
        factors=rng.random((9, 3), dtype=np.float32),
        moments=np.eye(3),
        means=rng.normal(size=9),
        support=rng.random(9),
        users=40.0,
        entities=2,
        private=True,
        note="ε is public",
        **second,
    )
    return encode_factors(made, plan)


for _kind in ("plain", "gram"):
    register(
        Parser(
            name=f"factors {_kind}",
            form="container",
            samples=lambda kind=_kind: [_factors(kind, 0), _factors(kind, 1)],  # type: ignore[misc]
            parse=lambda path, kind=_kind: load_factors(path, _plan(kind)).hash,  # type: ignore[misc]
        )
    )


def _feature_files() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        save_features(_FEATURES, f"{folder}/f")
        return [Path(folder, "f").read_bytes()]


register(
    Parser(
        name="plan's features", form="container", samples=_feature_files, parse=lambda path: load_features(path).hash
    )
)


def _models() -> list[bytes]:
    rows = np.clip(_COUNTS, 0, 5)
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
                catalog=_catalog(),
                history=Ratings(sparse.csr_array(_COUNTS), Identifiers(ids), _catalog(), "counts"),
                scorer=scorer,
                plan=plan,
                factors_hash="ab" * 32,
                private=True,
                strength=0.5,
                note="better",
                validation=table,
                lower=0.0,
                bound=5.0,
            )
        )
        for scorer, ids, plan in zip(scorers, users, (_plan("plain"), None, _plan("gram")), strict=True)
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


register(Parser(name="model", form="container", samples=_models, parse=_use_model))


def _ledgers() -> list[bytes]:
    event = ThresholdEvent(unit=Unit.person(), scale=Fraction(10), threshold=5)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.ledger")
        ledger = Ledger.create(path, dataset="d", ceiling=PureDP(epsilon=10), unit=Unit.person())
        for version in ("1", "2"):
            ledger.release(
                plan=digest(b"plan"),
                data=digest(version.encode()),
                version=version,
                events=[event],
                unit=Unit.person(),
                draw=lambda source: source.words(8).tobytes(),
                room=200,
            )
        ledger.raise_ceiling(PureDP(epsilon=20), reason="more")
        return [path.read_bytes()]


def _use_ledger(path: Path) -> object:
    """Open a ledger whose head fits, as somebody would leave it who edits both."""
    content = read_limited(path, _MOST)
    path.with_name(path.name + ".head").write_bytes(head_of(read_chain(content)).encode())
    state = Ledger(path).state()
    used: list[object] = [_properties(state), state.as_dict(), *map(_properties, state.entries)]
    used.append(card_from_ledger(Ledger(path)).to_json())
    with suppress(LedgerBroken):  # the stored releases are not beside it
        Ledger(path).verify()
    return used


def _properties(one: object) -> list[object]:
    """Everything that can be asked of an object; most of it is computed only then."""
    return [getattr(one, name) for name in dir(type(one)) if isinstance(getattr(type(one), name), property)]


def _use_head(path: Path) -> object:
    path.with_name("x.ledger").write_bytes(_ledgers_once())
    return Ledger(path.with_name("x.ledger")).state()


@cache
def _ledgers_once() -> bytes:
    return _ledgers()[0]


register(Parser(name="ledger", form="chain", samples=_ledgers, parse=_use_ledger, file="book.ledger"))
register(
    Parser(
        name="ledger head",
        form="json",
        samples=lambda: [head_of(read_chain(_ledgers_once())).encode()],
        parse=_use_head,
        file="x.ledger.head",
    )
)

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
    "features": (_TABLES, lambda path: read_features(path, _catalog()).hash),
    "ratings": (
        _RATINGS,
        lambda path: read_ratings(path, _catalog(), feedback="counts", duplicates="sum", unknown_items="drop").digest(),
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
