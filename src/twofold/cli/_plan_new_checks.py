"""What `twofold plan new` refuses at once or remarks on, before a plan is made: options that do not go together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from twofold.cli._agreed import listed
from twofold.errors import BadPlan

if TYPE_CHECKING:
    from twofold.features import Features
    from twofold.protocol.plan import Plan
    from twofold.protocol.roster import Roster

__all__ = ["check_features", "check_names", "check_secure", "print_notes", "read_roster"]

_NO_KEYS = "a secure sum needs --public-key of every entity"


def read_roster(paths: Sequence[Path]) -> Roster:
    """Join the public keys of all entities; a key that is given twice, or alone, is a slip."""
    from twofold.protocol.roster import Roster

    parts = [_public_keys(path) for path in paths]
    names = [name for part in parts for name in part]
    roster = Roster.joined(parts)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadPlan(
            "the public keys of an entity are given twice.",
            found=listed(twice),
            expected="--public-key once for every entity",
            fix="leave one out, or name the file of the entity that was meant",
        )
    if len(roster) < 2:
        raise BadPlan(
            "one entity alone has nobody to hide among.",
            found=f"the public keys of {listed(names)} only",
            expected=f"{_NO_KEYS}, two at least",
            fix="--public-key st-anna.pub --public-key st-bern.pub, and so on; twofold enroll makes them",
        )
    return roster


def _public_keys(path: Path) -> Roster:
    """Read one file of public keys, and name it where it is none."""
    from twofold.protocol.roster import Roster

    try:
        return Roster.read(path)
    except BadPlan as error:
        raise BadPlan(
            error.summary, found=f"--public-key {path.name}", expected=error.expected, fix=error.fix
        ) from None


def check_names(roster: Roster, entities: Sequence[str], n_entities: int | None) -> None:
    """Refuse names and numbers of entities that are not those of the keys."""
    if strangers := [name for name in entities if name not in roster]:
        raise BadPlan(
            "an entity has no public keys.",
            found=f"--entity {listed(strangers)}",
            expected=f"names among the keys: {listed(list(roster))}",
            fix="--public-key of that entity too, or no --entity: the keys name the entities",
        )
    if entities and (rest := [name for name in roster if name not in entities]):
        raise BadPlan(
            "the entities are not those of the public keys.",
            found=f"keys of {listed(rest)}, without --entity",
            fix="leave --entity out: the keys name the entities",
        )
    if n_entities is not None and n_entities != len(roster):
        raise BadPlan(
            "there are not as many public keys as entities.",
            found=f"--n-entities {n_entities}, and {len(roster)} keys",
            expected="the public keys of every entity, and no other",
            fix="--public-key of the others too, or leave --n-entities out: the keys are counted",
        )


def check_secure(options: Mapping[str, object], *, keys: bool, counted: bool) -> None:
    """Refuse options of a secure sum where no secure sum is asked for, or nobody is known to take part."""
    given = [name for name, value in options.items() if value]
    if keys or not given:
        return
    if "--survivors" not in given:
        raise BadPlan(
            "an option of a secure sum without one.", found=", ".join(given), expected=_NO_KEYS, fix="--public-key FILE"
        )
    if not counted:
        raise BadPlan(
            f"{_NO_KEYS}.",
            found="no key",
            fix="--public-key st-anna.pub --public-key st-bern.pub, and so on from twofold enroll; --n-entities "
            "in their place for a plan that is only to be explained or simulated",
        )


def check_features(mechanism: str | None, features: Path | None) -> None:
    """Refuse the mechanism that needs a table of features without one."""
    if mechanism == "features" and features is None:
        raise BadPlan(
            "--mechanism features needs a public table of what the items are.",
            found="no --features",
            fix="--features kinds.csv with a column of the item ids and one of classes, or another --mechanism",
        )


def print_notes(plan: Plan, table: Features | None) -> None:
    """Say what is allowed and probably not meant; beside the output, so that JSON stays JSON."""
    for note in _notes(plan, table):
        typer.echo(f"note: {note}", err=True)


def _notes(plan: Plan, table: Features | None) -> Iterable[str]:
    if table is not None and (bare := plan.n_items - table.described):
        yield (
            f"{bare:,} of {plan.n_items:,} items have no features: no line in the table, an empty class or only zeros. "
            "Allowed; fill them in if more is publicly known"
        )
    secure = plan.secure
    if secure is not None and not secure.roster:
        yield f"{_NO_KEYS}; without keys this plan can be explained and simulated, not run"
    times = {"--deadline": plan.deadline, "--share-deadline": None if secure is None else secure.share_deadline}
    for option, text in times.items():
        if text is not None and datetime.fromisoformat(text) <= datetime.now(UTC):
            yield f"{option} {text} is in the past: the server would wait for nobody once enough have come"
