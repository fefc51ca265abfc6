"""The public table of item features as a file beside the plan, in the catalog's order; its hash stands in the plan."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Final

from twofold.errors import BadMessage, NumericError, ProtocolError
from twofold.features import Features
from twofold.protocol.codec import Layout, field, open_container, unpack
from twofold.protocol.files import read_limited, write_whole
from twofold.protocol.seal import check_seal, pack_sealed

__all__ = ["load_features", "save_features"]

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
        raise BadMessage(error.summary, found=error.found, expected=error.expected) from None
