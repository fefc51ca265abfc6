"""What a plan keeps of a public table of item features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twofold.errors import BadPlan
from twofold.features import MOST_FEATURES, Features
from twofold.protocol.plain_checks import is_hash, whole

__all__ = ["FeaturesKey"]


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
