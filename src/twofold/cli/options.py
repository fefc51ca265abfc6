"""Shared by all verbs: options, and inputs checked before anything is drawn or spent."""

from __future__ import annotations

import os
import shlex
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Final, Literal, cast

import typer

from twofold.cli.formats import Events, Rows
from twofold.data.catalog import Catalog
from twofold.data.ratings import Ratings
from twofold.data.read import DuplicateRule, MissingRule, UnknownRule, read_ratings
from twofold.errors import (
    BadPlan,
    CatalogError,
    DataError,
    LedgerBroken,
    MissingColumn,
    PlanMismatch,
    Set,
    TwofoldError,
)
from twofold.federation.messages import roster_of
from twofold.federation.plan import Plan
from twofold.federation.plan_file import catalog_path, read_toml
from twofold.privacy.budget import weak_promise
from twofold.privacy.ledger import Ledger

if TYPE_CHECKING:
    from twofold.entity.site import Site
    from twofold.federation.agreement import Agreements
    from twofold.identity.keystore import KeyStore

__all__ = [
    "AgreementsOption",
    "CatalogFile",
    "CatalogOption",
    "DataFile",
    "DataOption",
    "Decimal",
    "Duplicates",
    "Encoding",
    "EntityName",
    "ForceOption",
    "ItemColumn",
    "Json",
    "KeysOption",
    "Local",
    "Missing",
    "PlanOption",
    "PolicyOption",
    "RevokedOption",
    "Separator",
    "Strength",
    "TableOption",
    "UnknownItems",
    "UselessOption",
    "UserColumn",
    "ValueColumn",
    "YesOption",
    "accept_useless",
    "accept_weak",
    "agreed_name",
    "check_folder",
    "listed",
    "missing_features",
    "note_few",
    "open_keys",
    "open_ledger",
    "open_site",
    "prediction_lines",
    "read_agreed",
    "read_agreements",
    "read_catalog",
    "read_items",
    "read_table",
    "refuse_output",
    "strength_of",
    "whole_ledger",
]

PlanOption = Annotated[Path, typer.Option("--plan", help="The agreed plan (TOML).")]
_DATA: Final = (
    "CSV, CSV.gz or Parquet, a row per user and item; - is standard input; a folder or 'pattern' of Parquet files is "
    "read out of core."
)
DataOption = Annotated[Rows, typer.Option("--data", help=_DATA)]
TableOption = Annotated[
    Path, typer.Option("--data", help="CSV, CSV.gz or Parquet, a row per user and item; - is standard input.")
]
CatalogOption = Annotated[
    Path | None, typer.Option("--catalog", help="The agreed item list; by default the file the plan names.")
]
EntityName = Annotated[
    str | None, typer.Option("--entity", help="This entity's public name; by default the name of the output file.")
]
Duplicates = Annotated[str, typer.Option(help="Several rows for one user and item: error, sum, mean or last.")]
UnknownItems = Annotated[str, typer.Option(help="Rows whose item is not in the catalog: error or drop.")]
Missing = Annotated[str, typer.Option(help="Rows without a user, an item or a value: error or drop.")]
Local = Annotated[str, typer.Option(help="Local model: auto, factors, item-item, patterns or features.")]
Strength = Annotated[str, typer.Option(help="Pull towards the shared factors: auto, own, shared or a number.")]


def read_catalog(plan: Plan, plan_file: Path, catalog: Path | None, *, encoding: str = "utf-8") -> Catalog:
    """Read the item list and check that it is the plan's."""
    path = catalog or catalog_path(plan_file)
    if path is None:
        raise CatalogError("the plan names no catalog file.", fix=Set("catalog", "items.csv"), parameter="catalog")
    found = read_items(path, encoding=encoding)
    if found.hash != plan.catalog.hash:
        raise PlanMismatch(
            "this item list is not the plan's.",
            found=f"{len(found):,} items, hash {found.hash[:12]}",
            expected=f"{plan.n_items:,} items, hash {plan.catalog.hash[:12]}",
            fix=Set("catalog", "FILE"),
            parameter="catalog",
        )
    return found


def read_items(path: Path, *, item: str | None = None, separator: str = ",", encoding: str = "utf-8") -> Catalog:
    """Read an item list; --item of most verbs is a column of the data, and is not advised for the list."""
    try:
        return Catalog.read(path, item=item, separator=separator, encoding=encoding)
    except MissingColumn as error:
        fix = "call the column of the ids in the item list item"
        raise error if item is not None else error.as_(MissingColumn, fix=fix, parameter="catalog") from None


def read_table(
    data: Rows,
    plan: Plan,
    catalog: Catalog,
    *,
    user: str,
    item: str,
    value: str,
    duplicates: str,
    unknown_items: str,
    missing: str,
    separator: str,
    encoding: str,
    decimal: str,
) -> Ratings:
    """Read an entity's table, or another format, the way the plan says."""
    if isinstance(data, Events):
        return data.read(catalog, plan.feedback)
    return read_ratings(
        data,
        catalog,
        user=user,
        item=item,
        value=None if value == "none" else value,
        feedback=plan.feedback,
        duplicates=cast(DuplicateRule, duplicates),
        unknown_items=cast(UnknownRule, unknown_items),
        missing=cast(MissingRule, missing),
        separator=separator,
        encoding=encoding,
        decimal=decimal,
    )


def note_few(plan: Plan, table: object) -> None:
    """Tell the person at the terminal, and nobody else, that the entity has fewer people than all promise to have.

    Privacy
    -------
    Looks at data, for this screen alone: nothing is refused, and nothing that leaves depends on it.
    """
    if plan.people or plan.n_users is None or not isinstance(table, Ratings) or not table.n_users:
        return
    if table.n_users < plan.n_users:
        few = f"NOTE, for you alone: this table has fewer people than the plan promises of an entity, {plan.n_users:,}."
        less = "It may take part, and is protected the same; predictions of usefulness count on the promised number."
        typer.echo(f"{few}\n  {less}", err=True)


def refuse_output(
    output: Path,
    inputs: Iterable[Rows | None] = (),
    *,
    ledger: Path | None = None,
    force: bool = False,
    plan: Plan | None = None,
    parameter: str = "output",
) -> None:
    """Refuse a name under which nothing can or may be written, before anything is read, drawn or spent.

    Parameters
    ----------
    output : Path
        The file to be written.
    inputs : iterable of Path, Events or None
        Files of the same command, which it must not be.
    ledger : Path, optional
        The ledger; all its files are needed.
    force : bool
        Whether a file that exists may be replaced.
    plan : Plan, optional
        A file that was made under this plan may be replaced, so that a command can be run again.
    parameter : str
        Which option names the file.
    """
    own = ledger is not None and output.name.startswith(ledger.name) and _same(output.parent, ledger.parent)
    files = [one.path if isinstance(one, Events) else one for one in (*inputs, ledger)]
    if own or any(_same(output, one) for one in files if one is not None):
        raise DataError(
            "{parameter} would overwrite a file that is needed.",
            found=output.name,
            fix="choose another name",
            parameter=parameter,
        )
    kind = _kind(output)
    if kind not in ("", "file"):
        raise DataError("{parameter} cannot be a file.", found=f"{output.name}: {kind}", parameter=parameter)
    if kind == "file" and not force and not (plan is not None and _made_under(plan, output)):
        raise DataError(
            "{parameter} names a file that already exists.",
            found=output.name,
            fix=("choose another name", Set("force", True)),
            parameter=parameter,
        )
    check_folder(output.parent, parameter)


def check_folder(folder: Path, parameter: str = "output") -> None:
    """Refuse a folder that does not exist or cannot be written to."""
    try:
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DataError(
            "{parameter} is in a folder that cannot be written to; nothing was done.",
            found=f"{folder.name or folder}: {error.strerror}",
            fix=f"mkdir -p {shlex.quote(str(folder))}, or another name" if not folder.exists() else "another folder",
            parameter=parameter,
        ) from None


def _kind(path: Path) -> str:
    """Say what is under a name; nothing, in words, is empty."""
    try:
        found = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return ""
    if stat.S_ISLNK(found):
        return "a link that leads nowhere" if not path.exists() else _kind(path.resolve())
    return "file" if stat.S_ISREG(found) else "a folder" if stat.S_ISDIR(found) else "a device or pipe"


def _made_under(plan: Plan, path: Path) -> bool:
    """Whether a message or model was made under this very plan, which its header names."""
    with path.open("rb") as file:
        return plan.hash.encode() in file.read(1 << 20)


def _same(one: Path, other: Path) -> bool:
    if os.path.realpath(one) == os.path.realpath(other):  # of a link to itself, too, which resolve() refuses
        return True
    return one.exists() and other.exists() and one.samefile(other)


def strength_of(text: str) -> float | Literal["auto", "own", "shared"]:
    """Read a strength: a word, or a number of at least 0."""
    if text in ("auto", "own", "shared"):
        return cast(Literal["auto", "own", "shared"], text)
    try:
        strength = float(text)
    except ValueError:
        strength = -1.0
    if not strength >= 0:  # NaN too
        raise typer.BadParameter("a number of at least 0, or auto, own, shared", param_hint="--strength")
    return strength


@contextmanager
def whole_ledger(path: Path) -> Iterator[None]:
    """Leave no part of a ledger that could not be made, on a full disk for example."""
    part = path.with_name(f"{path.name}.head.new")
    fresh = not path.exists() and not part.exists()
    try:
        yield
    except BaseException:
        if fresh and not path.exists():
            with suppress(OSError):
                part.unlink(missing_ok=True)
        raise


def open_ledger(path: Path, plan: Plan, name: str, *, new: bool, store: KeyStore | None = None) -> Ledger:
    """Open the ledger; create one only on request, since a second ledger would double a budget."""
    signer = None if store is None else store.signer
    if new:
        ceiling = plan.budget if plan.spec.private else None
        with whole_ledger(path):
            return Ledger.open_or_create(path, dataset=name, ceiling=ceiling, unit=plan.unit, signer=signer)[0]
    try:
        return Ledger(path, signer=signer)
    except LedgerBroken as error:
        if path.exists():
            raise
        first = "check the name first: a second ledger for the same people would double their budget. For people who "
        advice = f"{first}have none, add --new-ledger"
        raise error.as_(LedgerBroken, expected=None, fix=advice, parameter="new_ledger") from None


DataFile = Annotated[Rows, typer.Argument(help=_DATA)]
CatalogFile = Annotated[Path, typer.Option("--catalog", help="The agreed item list, CSV or Parquet.")]
UserColumn = Annotated[str, typer.Option("--user", help="Column of the user ids.")]
ItemColumn = Annotated[str, typer.Option("--item", help="Column of the item ids.")]
ValueColumn = Annotated[str, typer.Option("--value", help="Column of the values; 'none' counts rows.")]
Separator = Annotated[str, typer.Option("--separator", help="Field separator of the table; the item list's is found.")]
Encoding = Annotated[str, typer.Option("--encoding", help="Encoding of a CSV file, as latin-1, cp1252 or utf-16.")]
Decimal = Annotated[str, typer.Option("--decimal", help="Decimal mark of the values in a CSV file: . or ,")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


ForceOption = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]

#: Names that are printed in one line; --json has them all.
_MOST = 12


def read_agreed(path: Path) -> Plan:
    """Read a plan and require its table of features, without which all results would differ."""
    if (name := missing_features(path)) is not None:
        raise PlanMismatch(
            "the plan's table of features is missing; nothing was drawn, spent or published.",
            found=f"no {name} beside {path.name}",
            expected=f"the table with hash {str(read_toml(path)['features'].get('hash'))[:12]}",
            fix=f"copy {name} from the author of the plan into the folder of {path.name}, under that name",
            parameter="features",
        )
    return Plan.read(path)


def missing_features(path: Path) -> str | None:
    """Name the missing features file of a plan, or None; called first, since such a plan may not even parse."""
    table = read_toml(path).get("features")
    if not isinstance(table, dict):
        return None
    named = table.get("file")
    if not isinstance(named, str) or not named:
        return f'{path.stem}.features (and no line file = "{path.stem}.features" in the plan)'
    return None if (path.parent / named).exists() else named


KeysOption = Annotated[
    Path | None, typer.Option("--keys", help="Secret keys (twofold keys new); needed unless the plan is a simulation.")
]
AgreementsOption = Annotated[
    Path | None,
    typer.Option("--agreements", help="Everybody's agreements to the plan; beside the plan as .agreed by default."),
]
PolicyOption = Annotated[
    Path | None,
    typer.Option("--policy", help="The site's policy; policy.toml beside the keys, if there, and then no other."),
]
RevokedOption = Annotated[
    list[Path] | None, typer.Option("--revoked", help="A revoked key (twofold keys revoke); repeat for more.")
]


def open_keys(plan: Plan, keys: Path | None, revoked: Sequence[Path] | None = None) -> KeyStore | None:
    """Open the secret keys of a member of the plan's roster; None for a simulation without a roster."""
    if plan.roster is None and plan.simulation:
        return None
    from twofold.federation.agreement import check_member  # these load the library of ciphers
    from twofold.identity.keys import Revocation
    from twofold.identity.keystore import KeyStore

    roster_of(plan)
    if keys is None:
        raise PlanMismatch(
            "{parameter} is missing: messages of this plan are signed; nothing was drawn or spent.",
            expected="the secret keys whose public part is in the plan's roster",
            fix=Set("keys", "st-anna.keys"),
            parameter="keys",
        )
    store = KeyStore(keys)
    check_member(plan, store.identity, [Revocation.read(one) for one in revoked or ()])
    return store


def open_site(plan: Plan, store: KeyStore | None, keys: Path | None, policy: Path | None) -> Site | None:
    """Open the policy and the security log of an entity in a real plan; a simulation has neither."""
    if plan.simulation or store is None or keys is None:
        return None
    from twofold.entity.site import Site  # loads the library of ciphers

    return Site.of(store, keys, policy)


def read_agreements(plan: Plan, path: Path, given: Path | None) -> Agreements | None:
    """Read everybody's agreements from a file, by default the one beside the plan if there is one."""
    if plan.simulation:
        return None
    from twofold.federation.agreement import Agreements  # loads the library of ciphers

    beside = path.with_suffix(".agreed")
    if given is None and not beside.exists():
        return None
    found = Agreements.read(given or beside)
    found.check(plan)
    return found


YesOption = Annotated[bool, typer.Option("--yes", help="Accept a weak promise: ε above 20, or δ above 1/n_users.")]


def accept_weak(plan: Plan, yes: bool) -> None:
    """Refuse a plan whose promise protects hardly anybody, unless it was accepted by hand."""
    if plan.simulation or not plan.spec.private:
        return
    reasons = weak_promise(plan.epsilon, plan.delta, plan.counted_users)
    if reasons and not yes:
        raise BadPlan(
            "the plan's promise is weak; nothing was written, drawn or sent.",
            found=" ".join(reasons),
            expected="ε up to 20, and δ below one in the promised users",
            fix=("another plan", Set("yes", True)),
            parameter="epsilon" if "ε" in reasons[0] else "delta",
        )
    for reason in reasons:
        typer.echo(f"WEAK: {reason}", err=True)


UselessOption = Annotated[
    bool,
    typer.Option("--confirm-useless", help="Spend the budget though, by public numbers, noise will hide everything."),
]


def prediction_lines(plan: Plan) -> list[str]:
    """Say it in two lines; none where nothing was measured."""
    found = plan.prediction
    if found.word == "nothing":
        hidden = "noise hides even which items are frequent"
        more = "More people, more entities" + (", a secure sum" if plan.secure is None else "")
        return [
            f"Prediction: nothing. At ε = {float(plan.epsilon):g}, {hidden}.",
            f"  {more} or a larger ε would help.",
        ]
    if found.directions is None or found.share is None or found.low is None or found.high is None:
        return []
    if found.directions < 0.05:
        none = "No direction of taste rises above the noise; how often items are had may."
        return [f"Prediction: {found.word}. {none}"]
    shares = f"{100 * found.low:.0f} to {100 * found.high:.0f} %"
    number = f"{found.directions:,.0f}" if found.directions >= 9.95 else f"{found.directions:.1f}"
    return [
        f"Prediction: {found.word}. About {number} directions of taste rise above the noise.",
        f"  On data we measured, so many closed {shares} of the gap to pooled data.",
    ]


def accept_useless(plan: Plan, confirmed: bool, ledger: Path, *, version: str) -> None:
    """Ask before a price is spent on a release that will show nothing; refuse where nobody can be asked.

    What was paid for before is not asked again.

    Privacy
    -------
    Looks at the plan's public numbers and at the ledger, never at data.
    """
    if confirmed or not plan.useless or _paid(plan, ledger, version):
        return
    lines = prediction_lines(plan)
    if _asks():
        typer.echo("\n".join(lines), err=True)
        if typer.confirm(f"Spend ε = {float(plan.epsilon):g} all the same?", err=True):
            return
    raise BadPlan(
        "the release would show nothing; nothing was reserved, drawn or sent.",
        found=lines[0],
        expected="a plan whose prediction is more; twofold plan explain shows it",
        fix=("a plan with more people, or a larger ε", Set("confirm_useless", True)),
        parameter="confirm_useless",
    )


def _asks() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin.isatty()


def _paid(plan: Plan, ledger: Path, version: str) -> bool:
    from twofold.entity.account import paid  # loads what most commands do without

    try:
        return paid(Ledger(ledger), plan, version)
    except TwofoldError:  # whatever is wrong with it, it is said where it is opened
        return False


def agreed_name(given: str | None, output: Path, plan: Plan) -> str:
    """Give the entity's public name from the option or the output; refuse a name that the plan does not list."""
    name = given if given is not None else output.name.split(".")[0]
    if plan.entities and name not in plan.entities:
        raise PlanMismatch(
            "the plan does not name this entity.",
            found=f"{name}, as given with --entity" if given is not None else f"{name}, taken from -o {output.name}",
            expected=f"one of {listed(plan.entities)}",
            fix=f"--entity NAME with the agreed name{'' if given is not None else '; -o may then have any name'}",
            parameter="entity",
        )
    return name


def listed(names: Sequence[str]) -> str:
    """List as many names as fit on a line.

    Examples
    --------
    >>> listed(["anna", "bern"])
    'anna, bern'
    >>> listed([str(number) for number in range(14)])
    '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more'
    """
    rest = len(names) - _MOST
    return ", ".join(names[:_MOST]) + (f" and {rest:,} more" if rest > 0 else "")
