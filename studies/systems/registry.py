"""Systems by name."""

from __future__ import annotations

import importlib
from dataclasses import fields
from typing import Any, Final, cast

from studies.systems.base import System
from studies.systems.exchange import Release
from studies.systems.factorization import Factorization
from twofold.errors import BadParameter
from twofold.release.choose import NOT_PRIVATE, PRIVATE

__all__ = ["NAMES", "system"]

_PROTOTYPES: Final = ("auto", *PRIVATE, *(name for name in NOT_PRIVATE if name != "exact"))
_HOMES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "pooled": ("not_federated:PooledMF", {}),
    "individual": ("not_federated:IndividualMF", {}),
    **{f"prototypes-{name}": ("prototypes:PrototypesMF", {"mechanism": name}) for name in _PROTOTYPES},
    **{f"adapted-{name}": ("prototypes:Adapted", {"mechanism": name}) for name in _PROTOTYPES},
    "ladder-secure": ("secure_ladder:SecureLadder", {}),
    "as-published": ("as_recorded:AsPublishedMF", {}),
    "notebook": ("as_recorded:NotebookMF", {"prototypes": "published"}),
    "notebook-noise": ("as_recorded:NotebookMF", {"prototypes": "noise"}),
    "pure-noise": ("as_recorded:PureNoise", {}),
    "popularity-own": ("popularity:Popularity", {"whose": "own"}),
    "popularity-pooled": ("popularity:Popularity", {"whose": "pooled"}),
    "popularity-private": ("popularity:Popularity", {"whose": "private"}),
    "federated-als": ("iterative:FederatedALS", {}),
    "fedavg": ("iterative:FedAvgMF", {}),
    "tensor-admm": ("tensor:TensorADMM", {}),
    "tensor-pooled": ("tensor:TensorADMM", {"pooled": True}),
    "synthetic-rows": ("synthetic_rows:SyntheticRows", {}),
    "mcsherry-mironov": ("mcsherry_mironov:McSherryMironov", {}),
    "public-factors": ("not_federated:PublicFactors", {}),
    "implicit": ("peers:Peer", {"library": "implicit"}),
    "cmfrec": ("peers:Peer", {"library": "cmfrec"}),
    "lenskit": ("peers:Peer", {"library": "lenskit"}),
}
#: All names, in the order of the documentation.
NAMES: Final = tuple(_HOMES)
_GROUPS: Final[dict[str, Any]] = {"factorization": Factorization, "release": Release}


def system(name: str, **options: Any) -> System:
    """Return a system with its public options.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    **options
        Fields of the system, or of its `Factorization` and `Release`: ``rank=10``, ``epsilon=3`` go where they belong.

    Examples
    --------
    >>> system("prototypes-sulq", epsilon=3, rank=10).release.epsilon
    3
    >>> system("federated-als", rank=5, iterations=7).factorization.rank
    5
    >>> system("magic")
    Traceback (most recent call last):
    twofold.errors.BadParameter: this system is unknown...
    >>> system("pooled", magic=1)
    Traceback (most recent call last):
    twofold.errors.BadParameter: system 'pooled' does not have this option...
    """
    if name not in _HOMES:
        raise BadParameter("this system is unknown.", found=f"{name!r:.60}", expected=", ".join(NAMES))
    home, fixed = _HOMES[name]
    module, _, kind = home.partition(":")
    made = getattr(importlib.import_module(f"studies.systems.{module}"), kind)
    return cast(System, made(**_sorted(name, made, {**options, **fixed})))


def _sorted(name: str, made: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Assign every option: to the system first, then to its groups; refuse unknown options."""
    own = {one.name for one in fields(made)}
    groups = {group: {one.name for one in fields(kind)} for group, kind in _GROUPS.items() if group in own}
    placed: dict[str, Any] = {key: value for key, value in options.items() if key in own}
    for group, names in groups.items():
        inner = {key: value for key, value in options.items() if key in names and key not in own}
        if inner:
            given = vars(placed[group]) if group in placed else {}
            placed[group] = _GROUPS[group](**{**given, **inner})
    known = own.union(*groups.values())
    unknown = sorted(set(options) - known)
    if unknown:
        raise BadParameter(
            f"system {name!r} does not have this option.", found=", ".join(unknown), expected=", ".join(sorted(known))
        )
    return placed
