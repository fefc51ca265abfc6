"""The roster of a plan: one name, two public keys, nothing twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from twofold.errors import BadPlan
from twofold.secure_sum.keys import PublicKeys
from twofold.secure_sum.records import name_of

__all__ = ["check_roster"]


def check_roster(roster: Mapping[str, PublicKeys]) -> None:
    """Refuse a roster with a bad name, something else than keys, or a key that occurs twice.

    Examples
    --------
    >>> from twofold.secure_sum.keys import Keys
    >>> check_roster({name: Keys.new().public for name in ("anna", "bert")})
    """
    if not isinstance(roster, Mapping) or len(roster) < 2:
        raise BadPlan("a secure sum needs at least two entities.", expected="a table from names to public keys")
    for name in roster:
        name_of(name)
    if not all(isinstance(keys, PublicKeys) for keys in roster.values()):
        raise BadPlan("the roster holds something else than public keys.", expected="PublicKeys under every name")
    repeated = [key for key, times in Counter(_all_keys(roster)).items() if times > 1]
    if repeated:
        owners = sorted(name for name, keys in roster.items() if {keys.mask, keys.seal} & set(repeated))
        raise BadPlan(
            "a public key occurs twice in the roster.",
            found="in the entries of " + ", ".join(owners),
            expected="keys of its own for every entity",
            fix="let them enrol again with new keys",
        )


def _all_keys(roster: Mapping[str, PublicKeys]) -> list[bytes]:
    return [key for keys in roster.values() for key in (keys.mask, keys.seal)]
