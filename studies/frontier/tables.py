"""The tables of the frontier, as text cells; a page of Markdown and one of HTML both show these."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from studies.frontier.settings import Target
from studies.frontier.summary import BASELINES, GROUPS, Mean, Results
from twofold.release import usefulness
from twofold.release.bilinear.mechanism import Gram
from twofold.release.contract import ReleaseParameters

__all__ = [
    "NAMES",
    "Promise",
    "Sheet",
    "all_sheets",
    "control_sheet",
    "entity_sheet",
    "harm_sheet",
    "metric_sheet",
    "overview_sheet",
    "promise_sheet",
    "promises",
    "share_sheet",
    "target_sheet",
]

#: What noises are called.
NAMES = {"own": "own noise", "secure": "secure sum", "none": "no noise, not private", "noise only": "noise only"}

#: Entities that are listed one by one.
MOST_NAMED = 16


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A caption, headings and rows of text.

    Examples
    --------
    >>> print(Sheet(caption="Sizes", heads=("who", "users"), rows=(("a", "12"),)).markdown())
    | who | users |
    |---|---|
    | a | 12 |
    """

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """Render as a GitHub table."""
        lines = ["| " + " | ".join(row) + " |" for row in (self.heads, *self.rows)]
        return "\n".join([lines[0], "|" + "---|" * len(self.heads), *lines[1:]])


def overview_sheet(results: Sequence[Results], group: str = "smaller half") -> Sheet:
    """Every data set in one row: without others, pooled, and the share of the gap closed under a secure sum."""
    epsilons = sorted({epsilon for one in results for epsilon in one.epsilons})
    rows = []
    for one in results:
        cells = one.control(group=group), one.pooled(group)
        figures = (f"{one.figure(*cell, group=group).mean:.3f}" if cell[0] else "–" for cell in cells)
        rows.append(
            (
                f"{one.setting.title} ({one.setting.short})",
                *figures,
                *(_or_no_gap(one, epsilon, group) for epsilon in epsilons),
            )
        )
    heads = ("data", "without others", "pooled", *(f"ε = {one:g}" for one in epsilons))
    caption = f"Share of the gap closed, secure sum, {_group(group)}; nDCG@10, RMSE for ratings"
    caption += (
        ". Without others: the best way that needs nobody else; the share is taken from the best control, which may "
        "also be popularity shared under the same ε"
    )
    return Sheet(caption=caption, heads=heads, rows=tuple(rows))


def _or_no_gap(results: Results, epsilon: float, group: str) -> str:
    headline = results.setting.headline
    if not results.metric(headline, "secure", epsilon, group=group):
        return "–"
    if not results.gap(group, epsilon).clear:
        return "no clear gap"
    return _percent(results.share(headline, "secure", epsilon, group=group), results.seeds)


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What public numbers predict for one cell, and what was measured."""

    title: str
    epsilon: float
    directions: float
    risen: int | None
    share: float
    measured: Mean


def promises(results: Sequence[Results], honest_share: float) -> list[Promise]:
    """Predicted and measured share of every cell of a secure sum of pairs; nothing while there is no prediction."""
    predict = getattr(usefulness, "predict", None)
    if predict is None:
        return []
    found = []
    for one in results:
        setting, headline = one.setting, one.setting.headline
        if setting.feedback != "counts" or headline != "gram":
            continue
        for epsilon in one.epsilons:
            measured = one.share(headline, "secure", epsilon, group="smaller half")
            if math.isnan(measured.mean):
                continue
            public = _asked(one, epsilon, honest_share)
            said = predict(public, Gram().usefulness(public), pairs=True)
            risen = one.public["directions"].get((headline, "secure", epsilon))
            found.append(
                Promise(
                    title=setting.short,
                    epsilon=epsilon,
                    directions=said.directions,
                    risen=risen,
                    share=said.share,
                    measured=measured,
                )
            )
    return found


def _asked(results: Results, epsilon: float, honest_share: float) -> ReleaseParameters:
    setting, entities = results.setting, results.public["entities"]
    users = max(1, round(results.public["all_users"] / entities))
    return ReleaseParameters(
        n_items=results.public["items"],
        n_users=users,
        max_items=min(setting.max_items, results.public["items"]),
        bound=setting.bound,
        delta=setting.delta,
        n_entities=entities,
        epsilon=f"{epsilon:g}",
        honest=max(1, math.floor(honest_share * entities)),
    )


def promise_sheet(found: Sequence[Promise]) -> Sheet:
    """Predicted against measured."""
    rows = tuple(
        (
            f"{one.title}, ε = {one.epsilon:g}",
            f"{one.directions:.0f}",
            "–" if one.risen is None else f"{one.risen}",
            f"{100 * one.share:.0f} %",
            _percent(one.measured),
        )
        for one in found
    )
    heads = ("release", "directions, predicted", "directions, measured", "share, predicted", "share, measured")
    return Sheet(caption="Predicted from public numbers, and measured", heads=heads, rows=rows)


def all_sheets(results: Results) -> list[Sheet]:
    """Every table of one data set that has a row, controls first."""
    sheets = [control_sheet(results), *(share_sheet(results, group) for group in GROUPS), metric_sheet(results)]
    if results.setting.feedback == "ratings":
        sheets.append(metric_sheet(results, way="shared only"))
    sheets.append(harm_sheet(results))
    # Elsewhere a name is another entity in every split: simulated anew, or cut at random.
    if results.setting.source in ("movielens", "eicu-demo") and len(results.entity_users) <= MOST_NAMED:
        sheets += [entity_sheet(results, noise) for noise in ("secure", "own")]
    return [sheet for sheet in sheets if sheet.rows]


def control_sheet(results: Results) -> Sheet:
    """The test metric of every group without privacy, with shared popularity, and with noise alone."""
    baselines = BASELINES[results.setting.feedback]
    lines: list[tuple[str, tuple[Any, ...]]] = [
        *((name, (name,)) for name in baselines["alone"]),
        ("our model alone", ("alone",)),
        ("public features only", ("public features",)),
        *((f"noise only in place of {cell[0]}", cell) for cell in results.noise_only),
        *(
            (f"{name}, ε = {epsilon:g}", (name, "secure", epsilon))
            for name in baselines["shared"]
            for epsilon in results.epsilons
        ),
        *((f"federated, no noise: {name}", (name,)) for name in _without_noise(results)),
        *((name, (name,)) for name in baselines["pooled"]),
        ("our model on pooled data", ("pooled",)),
    ]
    rows = [
        (title, *(_metric(results.figure(*cell, group=group), results.seeds) for group in GROUPS))
        for title, cell in lines
    ]
    kept = tuple(row for row in rows if set(row[1:]) != {"–"})
    return Sheet(caption=f"Controls and pooled data: {_metric_name(results)}", heads=("way", *GROUPS), rows=kept)


def share_sheet(results: Results, group: str) -> Sheet:
    """Share of the gap closed, every mechanism and noise against ε."""

    def text(*cell: Any) -> str:
        return _percent(results.share(*cell, group=group), results.seeds)

    return _against_epsilon(results, f"Share of the gap closed, {_group(group)}", text)


def metric_sheet(results: Results, *, group: str = "all", way: str = "adapted") -> Sheet:
    """The test metric itself, every mechanism and noise against ε."""

    def text(*cell: Any) -> str:
        return _metric(results.figure(*cell, group=group, way=way), results.seeds)

    made = _against_epsilon(results, f"{_metric_name(results)}, {way}, {_group(group)}", text)
    return replace(made, rows=tuple(row for row in made.rows if set(row[1:]) != {"–"}))


def harm_sheet(results: Results) -> Sheet:
    """Entities worse off than alone: by more than one standard error, of those that took anything shared.

    Of entities that are neither better nor worse, chance alone shows about one in six so, and one in forty by two.
    """

    def text(*cell: Any) -> str:
        if not results.metric(*cell):
            return "–"
        found = results.harm(*cell)
        return f"{found.worse} ({found.far_worse}) of {found.moved}"

    caption = (
        "Entities worse than alone by more than one standard error (two), of those that took anything shared; where "
        "nothing changes, chance shows 16 % (2 %)"
    )
    return _against_epsilon(results, caption, text)


def _against_epsilon(results: Results, caption: str, text: Callable[[str, str, float], str]) -> Sheet:
    """A row per private mechanism and noise, a column per ε."""
    epsilons = results.epsilons
    return Sheet(
        caption=caption,
        heads=("mechanism", *(f"ε = {one:g}" for one in epsilons)),
        rows=tuple(
            (f"{mechanism}, {NAMES[noise]}", *(text(mechanism, noise, one) for one in epsilons))
            for mechanism, noise in results.privates
        ),
    )


def entity_sheet(results: Results, noise: str) -> Sheet:
    """Every entity's gain over alone with the headline mechanism, mean ± standard error over splits."""
    mechanism, epsilons = results.setting.headline, results.epsilons
    gains = {one: results.entity_gains(mechanism, noise, one) for one in epsilons}
    users = results.entity_users
    rows = tuple(
        (f"{entity} ({users[entity]:,} users)", *(_signed(gains[one].get(entity, Mean())) for one in epsilons))
        for entity in sorted(users, key=lambda entity: (users[entity], entity))
    )
    what = "nDCG@10" if results.setting.metric == "ndcg" else "reduction of the mean squared error"
    return Sheet(
        caption=f"Gain of every measured entity over alone: {mechanism}, {NAMES[noise]}, {what}",
        heads=("entity", *(f"ε = {one:g}" for one in epsilons)),
        rows=rows if any(gains.values()) else (),
    )


def target_sheet(targets: Sequence[Target], results: dict[str, Results]) -> Sheet:
    """Every target beside what was measured."""
    rows = [_target(one, results[one.data]) for one in targets if one.data in results]
    rows += [_no_harm(list(results.values()))] if rows else []
    return Sheet(caption="Targets", heads=("target", "measured", "reached"), rows=tuple(rows))


def _no_harm(results: Sequence[Results]) -> tuple[str, str, str]:
    """The target that federating is never worse than staying alone: every data set, release and ε a paired test."""
    cells = [
        (gain, f"{one.setting.title}, {mechanism}, {NAMES[noise]}, ε = {epsilon:g}, beside {_alone(name)}")
        for one in results
        for mechanism, noise in one.privates
        for epsilon in one.epsilons
        for name, gain in one.beside_alone(mechanism, noise, epsilon).items()
        if not math.isnan(gain.error)
    ]
    where = "no data set worse than alone or than own popularity by more than one standard error, at any ε"
    if not cells:
        return where, "not measured", "not known"
    worse = [cell for cell in cells if cell[0].mean < -cell[0].error]
    if not worse:
        return where, f"0 of {len(cells):,} tests", "yes"
    worst, name = min(worse, key=lambda cell: cell[0].mean)
    return f"{where} (worst: {name}, {_signed(worst)})", f"{len(worse):,} of {len(cells):,} tests", "no"


def _alone(name: str) -> str:
    return "our model alone" if name == "alone" else name


def _target(target: Target, results: Results) -> tuple[str, str, str]:
    setting = results.setting
    cell = (setting.headline, target.noise, target.epsilon)
    where = (
        f"{setting.title}: {setting.headline}, {NAMES[target.noise]}, ε = {target.epsilon:g}, {_group(target.group)}"
    )
    if target.least is not None:
        found = results.share(*cell, group=target.group, way=target.way)
        text, reached = _percent(found, results.seeds), found.mean >= target.least
        where += f": at least {100 * target.least:.0f} % of the gap"
    elif target.beside is not None:
        found = results.gain(*cell, group=target.group, way=target.way)
        below = -found.error if target.beside == "not below" and not math.isnan(found.error) else 0.0
        text, reached = _signed(found), found.mean > below
        where += f": {target.beside} the best control" + (" by more than an error" if below else "")
    else:
        assert target.most is not None
        found = results.figure(*cell, group=target.group, way=target.way)
        text, reached = _metric(found, results.seeds), found.mean <= target.most
        where += f", {target.way}: RMSE at most {target.most:g}"
    if math.isnan(found.mean):
        return where, "not measured" if not found.seeds else "no clear gap", "not known"
    return where, text, "yes" if reached else "no"


def _without_noise(results: Results) -> list[str]:
    return [release.name for release in results.setting.releases if results.metric(release.name)]


def _metric_name(results: Results) -> str:
    return "nDCG@10, more is better" if results.setting.metric == "ndcg" else "RMSE, less is better"


def _metric(figure: Mean, seeds: int = 0) -> str:
    if math.isnan(figure.mean):
        return "–"
    return f"{figure.mean:.4f}" + ("" if math.isnan(figure.error) else f" ± {figure.error:.4f}") + _few(figure, seeds)


def _few(figure: Mean, seeds: int) -> str:
    """A mark if fewer seeds were run than elsewhere: such means come from other splits than their neighbours."""
    return f" ({figure.seeds} seed{'s' if figure.seeds > 1 else ''})" if figure.seeds < seeds else ""


def _signed(figure: Mean) -> str:
    if math.isnan(figure.mean):
        return "–"
    return f"{figure.mean:+.4f}" + ("" if math.isnan(figure.error) else f" ± {figure.error:.4f}")


def _percent(figure: Mean, seeds: int = 0) -> str:
    if math.isnan(figure.mean):
        return "–"
    spread = "" if math.isnan(figure.error) else f" ± {100 * figure.error:.0f}"
    return f"{100 * figure.mean:.0f}{spread} %{_few(figure, seeds)}"


def _group(group: str) -> str:
    return "all entities" if group == "all" else f"{group} of the entities"
