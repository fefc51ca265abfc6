"""A plan as a file that people can read, write and discuss: TOML, one comment per field.

How the file is written (order, spaces, comments, ``0.1`` or ``"1/10"``) does not change the plan, nor its hash. Every
field must be there, so that a plan never depends on the defaults of a version; only `centre`, `l1_cap`, `l2_cap`,
`deadline`, `writer` and the tables `features`, `secure` and `roster` may be left out, which means "none". The file may
also say where the item list is (``catalog.file``, seen from the plan's folder), the table of features and the roster;
that differs from place to place and is not part of the plan: their hashes are.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from datetime import datetime
from fractions import Fraction
from os import PathLike
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, Final

from twofold.checks import shown
from twofold.errors import BadMessage, BadPlan, PlanMismatch, Run, TransportError, TwofoldError, UnreadableSource
from twofold.features import Features
from twofold.federation.fields import FieldNote, check_names
from twofold.federation.plan import SCHEMA, Plan
from twofold.federation.secure import OperatorSum, SecureSum
from twofold.federation.tables import load_features, save_features
from twofold.privacy.unit import ADJACENCY
from twofold.storage.container import printable
from twofold.storage.files import read_limited, write_whole

if TYPE_CHECKING:
    from twofold.identity.roster import Roster

__all__ = ["catalog_path", "parse_plan", "plan_text", "read_plan", "read_toml", "with_tables", "write_plan"]

_LARGEST: Final = 1_000_000
_LONGEST_PATH: Final = 1_000
_DEEPEST: Final = 4
#: Python prints such a number, so that each field can say its own range; hexadecimal ones may be far longer.
_LARGEST_INTEGER: Final = 10**1000
#: Dotted keys of more parts than a name has characters.
_LONG_KEY: Final = re.compile(
    rb"""(?:\.[ \t]*(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')[ \t]*){64}""",
)
#: Files beside a plan: what they hold and how they end. Not .keys, which is how secret ones are called.
_TABLES: Final = {"features": "table of features", "roster": "roster"}
_ENDINGS: Final = {"features": ".features", "roster": ".roster"}
#: Fields that are tables of the file, each after the plain ones.
_PARTS: Final = ("catalog", "unit", "features", "secure", "roster")
#: Fields that may be left out, which means "none".
_OPTIONAL: Final = tuple(one.name for one in Plan.notes() if one.optional)
_TOP: Final = """\
# Plan of a federation: every public parameter, the same file at every entity and at the server.
# Nothing in here may come from looking at private data: a bound chosen by the data tells something about the people
# in it. A changed field makes another plan; messages of the two do not mix.
# "twofold plan explain" says what would leave and how large the noise is; "twofold plan show" prints the hash.
"""


def read_plan(path: str | PathLike[str]) -> Plan:
    """Read a plan file; an unknown or missing field is refused by name.

    Examples
    --------
    >>> read_plan("no-such-plan.toml")
    Traceback (most recent call last):
    twofold.errors.UnreadableSource: the plan could not be read...
    """
    record = read_toml(path)
    return with_tables(parse_plan(record), record, Path(path).parent)


def write_plan(
    plan: Plan,
    path: str | PathLike[str],
    *,
    catalog_file: str | PathLike[str] | None = None,
    features_file: str | PathLike[str] | None = None,
    roster_file: str | PathLike[str] | None = None,
) -> None:
    """Write a plan file with a comment at every field, completely or not at all.

    Parameters
    ----------
    plan : Plan
        What.
    path : path
        Where.
    catalog_file, features_file, roster_file : path, optional
        The item list, the table of features and the roster, to be named in the file as seen from its folder.
        A table of features or a roster that the plan holds, and no path is given for, is written beside it
        (plan.features and plan.roster for plan.toml): without them nobody can take part.

    Raises
    ------
    BadPlan
        Another kind of file has that name; nothing is written then.
    """
    file = Path(path)
    named = {"catalog": catalog_file, "features": features_file, "roster": roster_file}
    beside = {table: file.with_suffix(_ENDINGS[table]) for table in _held(plan) if named[table] is None}
    for table, target in beside.items():
        _refuse_other(table, target, file)
    for table, target in beside.items():  # before the plan, which names them
        _write_table(plan, table, target)
    seen = {table: _seen_from(Path(one), file.parent) for table, one in (named | beside).items() if one is not None}
    write_whole(file, plan_text(plan, files=seen).encode())


def _held(plan: Plan) -> list[str]:
    """Tables that this plan holds itself, not only their hashes."""
    held = {"features": plan.features_table, "roster": plan.members}
    return [table for table, one in held.items() if one is not None]


def _write_table(plan: Plan, table: str, target: Path) -> None:
    if table == "features" and plan.features_table is not None:
        save_features(plan.features_table, target)
    elif plan.members is not None:
        plan.members.write(target)


def _refuse_other(table: str, target: Path, file: Path) -> None:
    """Overwrite an older table of the same plan file, and nothing else."""
    if target != file:
        if not target.exists():
            return
        try:
            _read_table(table, target)
        except TwofoldError:
            pass
        else:
            return
    raise BadPlan(
        f"the name of the plan's {_TABLES[table]} is already used by another file.",
        found=target.name,
        fix="write the plan under another name, as plan.toml",
        parameter=table,
    )


def _read_table(table: str, path: Path) -> Features | Roster:
    if table == "features":
        return load_features(path)
    from twofold.identity.roster import Roster  # loads the library of ciphers, which other plans do without

    return Roster.read(path)


def catalog_path(path: str | PathLike[str]) -> Path | None:
    """Give the path of the item list in a plan file; None if the file names none."""
    return _named(read_toml(path), "catalog", Path(path).parent)


def with_tables(plan: Plan, record: Mapping[str, Any], folder: Path) -> Plan:
    """Attach the public tables that the plan file names: features and keys, if present and of the plan's hashes."""
    changes: dict[str, Any] = {}
    table, keys = _named(record, "features", folder), _named(record, "roster", folder)
    if plan.features is not None and table is not None and os.path.lexists(table):
        changes["features"] = _read_table("features", table)
        _check_hash(_TABLES["features"], table, changes["features"].hash, plan.features.hash)
    if plan.roster is not None and keys is not None and os.path.lexists(keys):
        changes["roster"] = _read_table("roster", keys)
        _check_hash(_TABLES["roster"], keys, changes["roster"].hash, plan.roster.hash)
    return plan.with_(**changes) if changes else plan


def _check_hash(what: str, path: Path, found: str, due: str) -> None:
    if found != due:
        raise PlanMismatch(
            f"this {what} is not the plan's.",
            found=f"{path.name}, hash {found[:12]}",
            expected=f"hash {due[:12]}",
            fix="put the agreed file there",
            parameter="hash",
        )


def _named(record: Mapping[str, Any], table: str, folder: Path) -> Path | None:
    """Path of a file that the plan names; only one seen from the plan's folder, since a stranger may have written it.

    An absolute path would lead to a device or, on Windows, to another machine, which is then told who asks.
    """
    given = record.get(table)
    named = given.get("file") if isinstance(given, dict) else None
    if named is None or named == "":
        return None
    if not isinstance(named, str) or len(named) > _LONGEST_PATH or not named.isprintable() or _is_absolute(named):
        raise BadPlan(
            "the plan names a file that is not seen from its folder.",
            found=f"{table}.file = {printable(shown(named))}",
            expected="a relative path, as items.csv or ../lists/items.csv",
            fix="write it as seen from the plan's folder, or leave it out and name the file in the command",
            parameter=f"{table}.file",
        )
    return folder / named


def _is_absolute(named: str) -> bool:
    """Whether a path begins at a root, a drive or another machine, on any system."""
    return PurePosixPath(named).is_absolute() or bool(PureWindowsPath(named).anchor)


def read_toml(path: str | PathLike[str]) -> dict[str, Any]:
    """Read a TOML file; an error gives the line.

    Numbers of very many digits, deep tables and keys of very many parts are refused before anything uses them.
    """
    file = Path(path)
    try:
        content = read_limited(file, _LARGEST)
    except TransportError as error:
        raise UnreadableSource(
            "the plan could not be read.",
            found=error.found,
            fix="twofold plan new writes one",
            parameter="path",
        ) from None
    except BadMessage:
        raise UnreadableSource(
            "the plan is too large.", found=file.name, expected=f"at most {_LARGEST:,} bytes", parameter="path"
        ) from None
    try:
        if _LONG_KEY.search(content):  # the time that tomllib takes grows with the square of its parts
            raise RecursionError
        record = tomllib.loads(content.decode("utf-8-sig"))
        _check_sizes(record)
        return record
    except (ValueError, RecursionError) as error:
        told = isinstance(error, tomllib.TOMLDecodeError)
        reason = printable(error, 120) if told else "not UTF-8, nested too deeply, or a number of too many digits"
        raise UnreadableSource(
            "the plan is not TOML.",
            found=f"{file.name}: {reason}",
            expected="lines such as max_items = 60",
            parameter="path",
        ) from None


def _check_sizes(record: dict[str, Any]) -> None:
    """Refuse whole numbers and depths that no plan has, level by level."""
    level: list[Any] = [record]
    for _ in range(_DEEPEST):
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
        if any(isinstance(one, int) and abs(one) > _LARGEST_INTEGER for one in level):
            raise ValueError("digits")
        level = [one for one in level if isinstance(one, dict | list)]
    if level:
        raise RecursionError


def parse_plan(record: Mapping[str, Any]) -> Plan:
    """Make a plan from the content of a TOML file.

    Examples
    --------
    >>> parse_plan({"schema": "twofold.plan/3", "max_itemz": 3})
    Traceback (most recent call last):
    twofold.errors.BadPlan: the plan has an unknown field.
      Found: max_itemz
      Expected: perhaps max_items
      More: twofold errors bad-plan
    """
    if record.get("schema") == SCHEMA:  # any other is refused further on
        check_names(record, [*Plan.model_fields, "schema"], optional=_OPTIONAL)
        _check_table(record, "catalog", ("hash", "n_items"), optional=("file",))
        _check_table(record, "unit", ("holder", "entities"), optional=("adjacency",))
        if record.get("features") is not None:
            _check_table(record, "features", ("hash", "n_features"), optional=("file",))
        if isinstance(record.get("secure"), dict) and "roster" in record["secure"]:
            raise BadPlan(
                "the plan has the format of an older version, which knew no signing keys and no operator.",
                found="secure.roster",
                expected="the keys of everybody in [roster]",
                fix=("new keys by everybody: twofold keys new", Run("plan new --public-key st-anna.pub ...")),
                parameter="secure.roster",
            )
        if record.get("secure") is not None:
            shared = isinstance(record["secure"], dict) and record["secure"].get("kind") == "operators"
            notes = OperatorSum.notes() if shared else SecureSum.notes()
            _check_table(
                record,
                "secure",
                tuple(one.name for one in notes if not one.optional) + (("kind",) if shared else ()),
                optional=tuple(one.name for one in notes if one.optional),
            )
        if record.get("roster") is not None:
            _check_table(record, "roster", ("hash", "n_entities", "n_operators"), optional=("file",))
    given = {**dict.fromkeys(_OPTIONAL), **record}
    for table in ("catalog", "features", "roster"):  # the path of a list is not part of the plan
        if isinstance(given.get(table), dict):
            given[table] = {name: value for name, value in given[table].items() if name != "file"}
    if isinstance(given["secure"], dict) and isinstance(given["secure"].get("share_deadline"), datetime):
        given["secure"]["share_deadline"] = given["secure"]["share_deadline"].isoformat()
    if isinstance(given["deadline"], datetime):
        given["deadline"] = given["deadline"].isoformat()
    if isinstance(given.get("unit"), dict):
        given["unit"] = {"adjacency": ADJACENCY, **given["unit"]}
    return Plan.from_dict(given)


def plan_text(plan: Plan, *, files: Mapping[str, str | None] | None = None) -> str:
    """Write a plan as TOML, with what each field means.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=457), feedback="counts", bound=5, max_items=60)
    >>> parse_plan(tomllib.loads(plan_text(plan))) == plan
    True
    """
    named = dict(files or {})
    record = plan.as_dict() | {"epsilon": plan.epsilon, "delta": plan.delta}
    plain = [one for one in Plan.notes() if one.name not in _PARTS]
    parts = [_TOP, f"# Format of this file.\nschema = {_literal(SCHEMA)}\n"]
    parts += [_lines(one, record.get(one.name)) for one in plain]
    parts.append(
        f"# {Plan.note('catalog').meaning} Hash and length. Where the file is may differ from place\n"
        "# to place and is not part of the plan.\n"
        f"[catalog]\nhash = {_literal(plan.catalog.hash)}\nn_items = {plan.n_items}\n"
        f"{_file_line(named.get('catalog'))}\n"
    )
    parts.append(
        f"# {Plan.note('unit').meaning}\n"
        "# entities: in how many entities one person or visit may be found. Each spends the price again. In a secure\n"
        "# sum, where they share one noise, they cost more than that: `twofold plan explain` shows the figure.\n"
        f"[unit]\nholder = {_literal(plan.unit.holder)}\nentities = {plan.unit.entities}\n"
    )
    if plan.features is not None:
        parts.append(
            f"# {Plan.note('features').meaning} Hash and width.\n"
            f"[features]\nhash = {_literal(plan.features.hash)}\nn_features = {plan.features.n_features}\n"
            f"{_file_line(named.get('features'), 'items.features')}\n"
        )
    if plan.secure is not None:
        lines = [_lines(one, getattr(plan.secure, one.name)).rstrip() for one in type(plan.secure).notes()]
        kind = ['kind = "operators"'] if plan.operators is not None else []
        parts.append("\n".join([f"# {Plan.note('secure').meaning}", "[secure]", *kind, *lines]) + "\n")
    if plan.roster is not None:
        parts.append(
            f"# {Plan.note('roster').meaning}\n"
            f"[roster]\nhash = {_literal(plan.roster.hash)}\nn_entities = {plan.roster.n_entities}\n"
            f"n_operators = {plan.roster.n_operators}\n{_file_line(named.get('roster'), 'plan.roster')}\n"
        )
    return "\n".join(parts)


def _check_table(
    record: Mapping[str, Any], name: str, known: tuple[str, ...], *, optional: tuple[str, ...] = ()
) -> None:
    table = record[name]
    if not isinstance(table, dict):
        raise BadPlan(
            f"{name} must be a table of the plan.",
            parameter=name,
            found=f"{name} = {shown(table)}",
            expected=f"[{name}] {', '.join(known)}",
        )
    dotted = [f"{name}.{one}" for one in (*known, *optional)]
    check_names([f"{name}.{one}" for one in table], dotted, optional=[f"{name}.{one}" for one in optional])


def _seen_from(file: Path, folder: Path) -> str | None:
    try:
        name = Path(os.path.relpath(file, folder)).as_posix()
        name.encode()
    except ValueError:  # another drive on Windows, or a name that is not text
        return None
    return name


def _file_line(file: str | None, example: str = "items.csv") -> str:
    # JSON writes a text with escapes that TOML reads alike.
    return f'# file = "{example}"' if file is None else f"file = {json.dumps(file, ensure_ascii=False)}"


def _lines(note: FieldNote, value: object) -> str:
    if value is None:
        return f"# {note.meaning}\n# {note.name} = {_literal(note.example)}\n"
    return f"# {note.meaning}\n{note.name} = {_literal(value)}\n"


def _literal(value: object) -> str:
    """A TOML literal; texts in a plan are checked names, which need no escapes."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Fraction):
        return _fraction(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(_literal(one) for one in value)}]"
    return repr(value)


def _fraction(value: Fraction) -> str:
    """Write a number if its shortest text is exact, otherwise text in quotes."""
    if value.denominator == 1 and value.numerator < 10**15:
        return str(value.numerator)
    text = repr(float(value))
    return text if Fraction(text) == value else f'"{value}"'
