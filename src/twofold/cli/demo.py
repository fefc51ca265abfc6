"""`twofold demo`: a whole federation of simulated hospitals in one process, with a report, in about a minute."""

from __future__ import annotations

import json as jsonlib
import math
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from twofold.cli.options import ForceOption, Json, refuse_output
from twofold.cli.progress import bars
from twofold.data.federation import Federation
from twofold.data.split import Split
from twofold.entity.model import Model
from twofold.errors import BadParameter, TransportError
from twofold.privacy.card import brief
from twofold.privacy.ledger import Ledger
from twofold.report.federation import EntityLine, Example, Nouns
from twofold.simulation import Simulated

if TYPE_CHECKING:
    from twofold.federation.plan import Plan
    from twofold.report.federation import FederationRun

__all__ = ["HELD_OUT_WORDS", "NOUNS", "REMARKS", "added_up", "demo", "entity_lines", "example"]

REPORT = "twofold-demo.html"


def demo(
    patients: Annotated[int, typer.Option(min=400, help="Simulated patients over all hospitals.")] = 10_000,
    n_hospitals: Annotated[int, typer.Option("--hospitals", min=4, help="Simulated hospitals.")] = 80,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation and the split, never of the noise.")] = 7,
    epsilon: Annotated[
        float, typer.Option(min=0.01, max=1000, help="Privacy budget ε of each hospital's message.")
    ] = 1.0,
    output: Annotated[Path, typer.Option(help="The report: an .html file, or a folder for it.")] = Path(REPORT),
    ledgers: Annotated[Path | None, typer.Option(help="Keep the hospitals' ledgers in this folder.")] = None,
    open_report: Annotated[bool, typer.Option("--open/--no-open", help="Show the report in a browser.")] = False,
    force: ForceOption = False,
    json: Json = False,
) -> None:
    """Simulate hospitals and two operators, run both rounds with real noise, compare with staying alone, and report.

    The noise comes from the operating system, as in a real federation, so private numbers differ slightly between
    runs. Everything else repeats with the seed.

    Examples
    --------
    twofold demo --open
    twofold demo --hospitals 12 --patients 3000 --output reports
    """
    from twofold.cli.demo_run import Demo, run_demo
    from twofold.report.federation_page import federation_page

    target = _target(output)
    refuse_output(target, force=force or target.name == REPORT)  # of its own name there is nothing else
    with _ledgers(ledgers) as folder, bars() as tell:
        asked = Demo(patients=patients, n_hospitals=n_hospitals, seed=seed, epsilon=epsilon, ledgers=folder)
        run = run_demo(asked, tell)
    subtitle = f"{n_hospitals} hospitals, {patients:,} patients, seed {seed}"
    federation_page(run, title="twofold demo: a federation of simulated hospitals", subtitle=subtitle).write(target)
    if json:
        record = {**_record(run), "report": str(target)}
        typer.echo(jsonlib.dumps(record, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _print(run, target, ledgers)
    if open_report:
        webbrowser.open(target.resolve().as_uri())


def _target(output: Path) -> Path:
    """Give the file to write; refuse an impossible one before any work."""
    if output.suffix.lower() in (".html", ".htm") and not output.is_dir():
        folder, name = output.parent, output.name
    elif output.is_file():
        raise BadParameter(
            "the report is an HTML page.", found=output.name, expected=f"a folder, or {REPORT}", parameter="output"
        )
    else:
        folder, name = output, REPORT
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TransportError(
            "the folder of the report cannot be created.", found=f"{folder.name}: {error.strerror}", parameter="output"
        ) from None
    return folder / name


@contextmanager
def _ledgers(given: Path | None) -> Iterator[Path]:
    """Give the requested folder, or a temporary one."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="twofold-demo-") as folder:
        yield Path(folder)


def _record(run: FederationRun) -> dict[str, Any]:
    """Give everything the table shows, and more, as plain JSON."""
    from twofold.report.federation import Group, headline, mean_and_spread, size_groups

    groups = (Group(name="all", short="all", members=run.everyone), *size_groups(run.sizes))

    def cells(values: tuple[float, ...]) -> dict[str, dict[str, float | None]]:
        found = {group.name: mean_and_spread(values, group.members) for group in groups}
        return {name: {"mean": _plain(mean), "spread": _plain(spread)} for name, (mean, spread) in found.items()}

    first, more = headline(run)
    return {
        "verdict": first,
        "details": more,
        "messages_protected": run.private,
        "plan": run.plan.hash,
        "epsilon": float(run.plan.epsilon),
        "delta": float(run.plan.delta),
        "patients": sum(run.sizes),
        "hospitals": len(run.entities),
        "bytes_sent": sum(entity.bytes for entity in run.entities),
        "systems": [
            {"key": one.key, "name": one.name, "ndcg": cells(one.ndcg), "mean_rank": cells(one.mean_rank)}
            for one in run.systems
        ],
        "seconds": {name: round(seconds, 3) for name, seconds in run.timings},
    }


def _plain(value: float) -> float | None:
    """Replace NaN, which JSON does not have."""
    return value if math.isfinite(value) else None


def _print(run: FederationRun, target: Path, ledgers: Path | None) -> None:
    from twofold.report.federation import budget_words, headline, kept_of_the_gain, mean_and_spread, size_groups

    groups = size_groups(run.sizes)
    console = Console()
    title = f"nDCG@10 over {len(run.entities)} simulated hospitals"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=0)
    for name in ("", "all ± spread", *(group.short for group in groups), "rank"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for one in run.systems:
        mean, spread = mean_and_spread(one.ndcg, run.everyone)
        quarters = (f"{mean_and_spread(one.ndcg, group.members)[0]:.3f}" for group in groups)
        rank = mean_and_spread(one.mean_rank, run.everyone)[0]
        bold = "bold" if one.key == "private" else None
        table.add_row(one.name, f"{mean:.3f} ± {spread:.3f}", *quarters, f"{rank:.3f}", style=bold)
    console.print(table)
    first, more = headline(run)
    sent = run.entities[0]
    console.print(
        f"{first}\n{more[0]}\n{kept_of_the_gain(run, 'non_private')}\n"
        f"Left each hospital: {_left(run.plan, sent.bytes)} at {budget_words(run.plan)} per person. Columns: "
        f"quarters of the hospitals by size. nDCG@10: 1 is best; rank: mean rank, 0 is best, 0.5 chance.\n"
        f"Report: {target}{_where(run, ledgers)}",
        highlight=False,
        soft_wrap=True,
    )


def _left(plan: Plan, length: int) -> str:
    """Describe what one hospital sent."""
    if plan.secure is None:
        return f"one message of {length:,} bytes"
    if plan.operators is not None:
        return f"one message of {length:,} bytes, in two sealed shares,"
    return f"{length:,} bytes, one message under masks, and the agreement and keys without data,"


def _where(run: FederationRun, ledgers: Path | None) -> str:
    """Say how to show one of the ledgers, if they were kept."""
    if ledgers is None:
        return ""
    return f"\nLedgers: twofold ledger show {ledgers / 'private' / run.entities[0].name}.ledger"


NOUNS: Final = Nouns(entity="hospital", entities="hospitals", user="patient", users="patients", items="items")
HELD_OUT_WORDS: Final = (
    "Five entries of every second patient were held out first, the same for all systems. Each system had to find "
    "them among the items the patient is not known to have had. Every hospital counts the same."
)
REMARKS: Final = (
    "Every patient and every hospital here is simulated. The simulator is tuned to published facts about intensive "
    "care (docs/reference/hospitals.md) and is not evidence about real hospitals.",
    "The noise is real: it comes from the operating system and is charged to one ledger per hospital. Another run with "
    "the same seed therefore gives slightly different private numbers, and a verdict close to two standard errors may "
    "change. This page shows one draw.",
    "Both operators ran in this one process, with keys and noise of their own. In practice they are two institutions "
    "that nobody can make work together: both together could open every hospital's exact sums.",
    "Popularity shared privately was charged to separate ledgers. In practice, a hospital buys one of the two.",
    "The federation without privacy and the pooled model are for comparison only. They are possible only because all "
    "patients are simulated.",
    "A person found in two hospitals is protected less: the prices of both add up.",
)
SHOWN: Final = 5  # recommendations and reasons of the example


def entity_lines(federation: Federation, done: Simulated, ledgers: Path) -> tuple[EntityLine, ...]:
    """Gather what the report says about each hospital."""
    return tuple(
        EntityLine(
            name=name,
            users=federation[name].n_users,
            numbers=done.plan.spec.numbers or 0,
            bytes=done.sent[name],
            spent=brief(Ledger(ledgers / f"{name}.ledger").state().spent),
            noise=done.plan.spec.noise.values,
            signal=math.nan,  # a share looks random, so nobody can tell
            model=done.models[name].scorer.kind,
            strength=_strength(done.models[name].strength),
            gain=_gain(done.models[name]),
        )
        for name in federation
    )


def added_up(done: Simulated) -> tuple[float, float]:
    """Noise in a number of the sum of all messages, and the sum of one item's squares beneath it (root mean square)."""
    factors = done.factors
    assert factors.totals is not None  # the demonstration sums a Gram matrix of counts
    assert factors.squares is not None
    return factors.totals.diagonal_noise, float(np.sqrt(np.mean((factors.users * factors.squares) ** 2)))


def _strength(strength: float) -> str:
    if strength == 0:
        return "own only"
    return "shared only" if math.isinf(strength) else f"{strength:,.0f} patients"


def _gain(model: Model) -> float:
    """Gain of the chosen model over the best model alone, by the hospital's own validation."""
    alone = [line["loss"] for line in model.validation if line["strength"] == 0]
    taken = next((line["loss"] for line in model.validation if line.get("taken")), math.nan)
    return min(alone) - taken if alone else math.nan


def example(done: Simulated, split: Split[Federation]) -> Example:
    """Recommend to one patient of the hospital in the middle by size: the first with entries held out."""
    name = sorted(split.train, key=lambda name: split.train[name].n_users)[len(split.train) // 2]
    model, test = done.models[name], split.test[name]
    user = test.user_ids[int(np.flatnonzero(test.entries_per_user)[0])]
    best = model.recommend(user, n=10)
    told = model.explain(user, best[0].item, n=SHOWN)
    reasons = [(f"{reason.item} ({reason.value:g})", reason.contribution) for reason in told.reasons]
    return Example(
        entity=str(name),
        user=str(user),
        history=_largest(model.history.of(user)),
        recommended=tuple((str(one.item), one.score) for one in best),
        reasons=(*reasons, ("everything else", told.rest)),
        held_out=tuple(str(item) for item in test.of(user)),
    )


def _largest(history: dict[Any, float]) -> tuple[tuple[str, float], ...]:
    return tuple((str(item), value) for item, value in sorted(history.items(), key=lambda one: -one[1]))
