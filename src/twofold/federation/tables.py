"""Public tables that a plan knows by their hashes: the catalog, the features of its items, and the roster."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from twofold.checks import is_hash, whole
from twofold.errors import BadMessage, BadPlan, NumericError, ProtocolError
from twofold.features import MOST_FEATURES, Features
from twofold.storage.container import Layout, check_seal, field, open_container, pack_sealed, unpack
from twofold.storage.files import read_limited, write_whole

if TYPE_CHECKING:
    from twofold.identity.roster import Roster

__all__ = ["CatalogKey", "FeaturesKey", "RosterKey", "decode_features", "load_features", "save_features"]

#: No catalog of ours is longer; a header that says so is refused before anything is allocated.
_MOST_ITEMS: Final = 10_000_000
_SCHEMA: Final = "twofold.features/1"
#: Bytes of a table of features: a million items of thirty classes.
_LARGEST: Final = 256 * 1024**2


@dataclass(frozen=True, kw_only=True)
class CatalogKey:
    """Hash and length of a catalog: the only parts that the server knows.

    Examples
    --------
    >>> CatalogKey(hash="abc", n_items=3)
    Traceback (most recent call last):
    twofold.errors.BadPlan: the hash of the catalog is not a SHA-256...
    """

    hash: str
    n_items: int

    def __post_init__(self) -> None:
        _check_hash("catalog", self.hash)
        whole("catalog.n_items", self.n_items, most=_MOST_ITEMS)

    @classmethod
    def of(cls, catalog: Any) -> CatalogKey:
        """Take hash and length of any object that has both; a key stays unchanged."""
        if isinstance(catalog, CatalogKey):
            return catalog
        if not hasattr(catalog, "hash") or not hasattr(catalog, "items") or not hasattr(catalog, "__len__"):
            raise BadPlan(
                "a plan needs the public catalog.",
                found=f"a {type(catalog).__name__}",
                fix='Catalog.read("items.csv")',
                parameter="catalog",
            )
        return cls(hash=catalog.hash, n_items=len(catalog))


@dataclass(frozen=True, kw_only=True)
class FeaturesKey:
    """Hash and size of a table of features: the only parts that belong to a plan.

    Examples
    --------
    >>> FeaturesKey(hash="0" * 64, n_features=18).n_features
    18
    """

    hash: str
    n_features: int

    def __post_init__(self) -> None:
        _check_hash("features", self.hash)
        whole("features.n_features", self.n_features, most=MOST_FEATURES)

    @classmethod
    def of(cls, given: Any) -> FeaturesKey:
        """Take hash and size of a table; a key stays unchanged."""
        if isinstance(given, FeaturesKey):
            return given
        if not isinstance(given, Features):
            raise BadPlan(
                "features must be a table.",
                found=f"a {type(given).__name__}",
                fix="read_features(...)",
                parameter="features",
            )
        return cls(hash=given.hash, n_features=given.n_features)


@dataclass(frozen=True, kw_only=True)
class RosterKey:
    """Hash of the list of everybody's public keys, and how many entities and operators it names.

    Examples
    --------
    >>> RosterKey(hash="0" * 64, n_entities=3).n_operators
    1
    """

    hash: str
    n_entities: int
    n_operators: int = 1

    def __post_init__(self) -> None:
        _check_hash("roster", self.hash)
        whole("roster.n_entities", self.n_entities, least=0, most=10_000)
        whole("roster.n_operators", self.n_operators, least=0, most=2)

    @classmethod
    def of(cls, given: RosterKey | Roster) -> RosterKey:
        """Take hash and numbers of a roster; a key stays unchanged."""
        if isinstance(given, RosterKey):
            return given
        if not hasattr(given, "sums") or not hasattr(given, "hash"):
            raise BadPlan(
                "roster must be a list of public keys.",
                found=f"a {type(given).__name__}",
                fix="Roster.joined(...)",
                parameter="roster",
            )
        return cls(hash=given.hash, n_entities=len(given.entities), n_operators=len(given.operators))


def save_features(features: Features, path: str | PathLike[str]) -> None:
    """Write the table, completely or not at all."""
    record = {"schema": _SCHEMA, "names": list(features.names)}
    write_whole(path, pack_sealed(record, {"matrix": features.matrix}))


def load_features(path: str | PathLike[str]) -> Features:
    """Read a table of `save_features`.

    Raises
    ------
    BadMessage
        Another file, or a damaged one.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> genres = Features(matrix=np.array([[1, 0], [0, 1]]), names=("comedy", "drama"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_features(genres, f"{folder}/genres.features")
    ...     load_features(f"{folder}/genres.features") == genres
    True
    """
    data = read_limited(path, _LARGEST)
    try:
        return decode_features(data)
    except ProtocolError as error:
        raise BadMessage(
            "the table of features is damaged, or another file.",
            found=f"{Path(path).name}: {error.summary}" + (f" {error.found}" if error.found else ""),
            expected=error.expected or "what twofold plan new wrote beside the plan",
            fix="copy it again from the author of the plan",
            parameter="features",
        ) from None


def decode_features(data: bytes) -> Features:
    """Read the bytes of `save_features`."""
    container = open_container(data)
    if field(container.record, "schema", str) != _SCHEMA:
        raise BadMessage("this is not a table of features.", expected=_SCHEMA)
    names = field(container.record, "names", list)
    shape = container.layouts["matrix"].shape if "matrix" in container.layouts else ()
    layout = Layout(dtype="I64", shape=(shape[0] if shape else 0, len(names)))
    arrays = unpack(data, container, {"matrix": layout})
    check_seal(data, container.record)
    try:
        return Features(matrix=arrays["matrix"], names=tuple(str(name) for name in names))
    except NumericError as error:
        raise error.as_(BadMessage) from None


def _check_hash(table: str, found: object) -> None:
    if not is_hash(found):
        raise BadPlan(
            f"the hash of the {table} is not a SHA-256.", expected="64 hexadecimal digits", parameter=f"{table}.hash"
        )
