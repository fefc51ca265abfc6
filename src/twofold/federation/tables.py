r"""What a plan keeps of a public table of item features.

The public table of item features as a file beside the plan, in the catalog's order; its hash stands in the plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final

from twofold.checks import is_hash, whole
from twofold.errors import BadMessage, BadPlan, NumericError, ProtocolError
from twofold.features import MOST_FEATURES, Features
from twofold.storage.container import Layout, check_seal, field, open_container, pack_sealed, unpack
from twofold.storage.files import read_limited, write_whole

__all__ = ["FeaturesKey", "load_features", "save_features"]


@dataclass(frozen=True, kw_only=True)
class FeaturesKey:
    """Hash and size of a table of features: all of it that is part of a plan.

    Examples
    --------
    >>> FeaturesKey(hash="0" * 64, n_features=18).n_features
    18
    """

    hash: str
    n_features: int

    def __post_init__(self) -> None:
        if not is_hash(self.hash):
            raise BadPlan("the hash of the features is not one.", expected="64 hexadecimal digits, as Features.hash")
        whole("features.n_features", self.n_features, most=MOST_FEATURES)

    @classmethod
    def of(cls, given: Any) -> FeaturesKey:
        """Take hash and size of a table; a key stays as it is."""
        if isinstance(given, FeaturesKey):
            return given
        if not isinstance(given, Features):
            raise BadPlan("features are a table.", found=f"a {type(given).__name__}", fix="read_features(...)")
        return cls(hash=given.hash, n_features=given.n_features)


_SCHEMA: Final = "twofold.features/1"
_LARGEST: Final = 2 * 1024**3


def save_features(features: Features, path: str | PathLike[str]) -> None:
    """Write the table, whole or not at all."""
    record = {"schema": _SCHEMA, "names": list(features.names)}
    write_whole(path, pack_sealed(record, {"matrix": features.matrix}))


def load_features(path: str | PathLike[str]) -> Features:
    """Read a table that `save_features` wrote.

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
        return _decoded(data)
    except ProtocolError as error:
        raise BadMessage(
            "the table of features is damaged, or another file.",
            found=f"{Path(path).name}: {error.summary}" + (f" {error.found}" if error.found else ""),
            expected=error.expected or "what twofold plan new wrote beside the plan",
            fix="copy it again from whoever wrote the plan",
        ) from None


def _decoded(data: bytes) -> Features:
    container = open_container(data)
    if field(container.record, "schema", str) != _SCHEMA:
        raise BadMessage("this is no table of features.", expected=_SCHEMA)
    names = field(container.record, "names", list)
    shape = container.layouts["matrix"].shape if "matrix" in container.layouts else ()
    layout = Layout(dtype="I64", shape=(shape[0] if shape else 0, len(names)))
    arrays = unpack(data, container, {"matrix": layout})
    check_seal(data, container.record)
    try:
        return Features(matrix=arrays["matrix"], names=tuple(str(name) for name in names))
    except NumericError as error:
        raise error.as_(BadMessage) from None
