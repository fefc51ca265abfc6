"""What the verbs of `twofold plan` say, apart from the table of `explain`."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from fractions import Fraction

from twofold.errors import TwofoldError
from twofold.privacy.budget import ApproxDP, PureDP
from twofold.protocol.leaving import Leaving
from twofold.protocol.plan import Plan

__all__ = ["in_options", "leaving_lines", "plan_lines", "promise", "rounded_up"]

_NAMES = {one.name for one in fields(Plan)} - {"catalog", "entities", "unit", "features", "secure"}
_LONG = "|".join(sorted(name for name in _NAMES if "_" in name))
_WORDS = "|".join(sorted(_NAMES))
# A name with an underscore is a field wherever it stands; a plain word only where a value follows or at the beginning.
_OPTION = re.compile(rf"(?<![\w.-])(?:({_LONG})(?![\w.])|((?:^|(?<=[\s(]))(?:{_WORDS}))(?==))(=True\b|=)?")
_FIRST = re.compile(rf"^(?!\w*_)({_WORDS})(?= (?:is|has|must)\b)")


def in_options(error: TwofoldError) -> TwofoldError:
    """Say an error in the words of the command line: ``max_items`` becomes ``--max-items``.

    Examples
    --------
    >>> from twofold.errors import BadPlan
    >>> print(in_options(BadPlan("max_items is out of range.", fix='mechanism="auto", or simulation=True')))
    --max-items is out of range.
      Do: --mechanism auto, or --simulation
      See docs/errors.md#bad-plan
    """

    def words(text: str | None) -> str | None:
        return None if text is None else _OPTION.sub(_option, _FIRST.sub(r"--\1", text)).replace('"', "")

    return type(error)(
        str(words(error.summary)), found=words(error.found), expected=words(error.expected), fix=words(error.fix)
    )


def promise(guarantee: PureDP | ApproxDP) -> str:
    """A guarantee in symbols, with three digits, rounded up as on the card.

    Examples
    --------
    >>> promise(PureDP(epsilon="0.1")), promise(PureDP(epsilon="2.111"))
    ('ε = 0.1', 'ε = 2.12')
    """
    delta = Fraction(getattr(guarantee, "delta", 0))
    return f"ε = {rounded_up(guarantee.epsilon)}" + (f", δ = {rounded_up(delta)}" if delta else "")


def rounded_up(amount: Fraction | float) -> str:
    """Three digits, never less than it is: a promise may be kept better than said, and not worse.

    Examples
    --------
    >>> rounded_up(2.111), rounded_up(Fraction(1, 10)), rounded_up(1234)
    ('2.12', '0.1', '1240')
    """
    if not amount:
        return "0"
    exact = Fraction(str(amount))  # of a float what it is written as: 0.1 is no more than 0.1
    step = Fraction(10) ** (math.floor(math.log10(exact)) - 2)
    return f"{float(math.ceil(exact / step) * step):.10g}"


def leaving_lines(plan: Plan, found: Leaving) -> list[str]:
    """What would leave, from which mechanism, and at what price."""
    holder = {"person": "a person with everything recorded about them", "visit": "one visit"}[plan.unit.holder]
    lines = [f"Mechanism: {found.mechanism}" + (f", chosen by auto.\n  {found.reason}" if found.reason else ".")]
    if found.arrays is None:
        lines.append("What would leave, once: as many rows as private data decide. NOT private.")
    else:
        shapes = ", ".join(f"{name} {' x '.join(f'{one:,}' for one in shape)}" for name, shape in found.arrays.items())
        lines.append(f"What would leave an entity, once: {shapes}, whole numbers, {found.bytes:,} bytes,")
        lines.append(f"  and a header of public text; never more than {found.most_bytes:,} bytes.")
    if not found.private:
        return [*lines, "Price: infinite. This mechanism has no proof; for simulations only."]
    noise, law = found.noise, found.noise.law.capitalize()
    extra = f", {noise.observed:,.4g} on a number of observations" if noise.observed else ""
    whose = "Noise of one entity's share" if found.honest else "Noise"
    lines.append(
        f"{whose}: {law}, standard deviation {noise.values:,.4g} on a sum, {noise.counts:,.4g} on a count{extra}."
    )
    if found.honest:
        values, counts = (math.sqrt(plan.n_entities) * one for one in (noise.values, noise.counts))
        where = f"  In the sum of all {plan.n_entities:,}, which the server sees"
        lines.append(f"{where}: {values:,.4g} on a sum, {counts:,.4g} on a count.")
    lines.append(f"Hidden: {holder}; price {promise(found.guarantee)} when one is added or removed,")
    lines.append(f"  {promise(found.replace_one)} when one is replaced by another.")
    if found.honest and found.alone is not None:
        lines.append(
            f"Secure sum: the server sees only the sum; the noise is shared among {found.honest} honest entities."
        )
        lines.append(
            f"  One message alone, should all others collude with the server: ε = {rounded_up(found.alone)}."
            if math.isfinite(found.alone)
            else "  One message alone, should all others collude with the server: nothing is promised."
        )
    if plan.unit.entities > 1:
        lines.append(f"  Found in up to {plan.unit.entities} entities: {promise(found.across)} in all.")
    if plan.simulation:
        lines.append("Simulation: seeds are allowed and everything is marked not private.")
    return lines


def plan_lines(plan: Plan) -> list[str]:
    """Every field of a plan, one a line."""
    record = plan.as_dict() | {"epsilon": f"{plan.epsilon}", "delta": f"{float(plan.delta):g}"}
    record["catalog"] = f"{plan.n_items:,} items, hash {plan.catalog.hash[:12]}"
    where = "one entity only" if plan.unit.entities == 1 else f"up to {plan.unit.entities} entities"
    record["unit"] = f"{plan.unit.holder}, found in {where}, {plan.unit.adjacency}"
    record["entities"] = ", ".join(plan.entities) or "any"
    if plan.features is not None:
        record["features"] = f"{plan.features.n_features} public features, hash {plan.features.hash[:12]}"
    if plan.secure is not None:
        given = {name: value for name, value in plan.secure.as_dict().items() if value not in (None, "")}
        record["secure"] = ", ".join(f"{name} {str(value)[:12]}" for name, value in given.items())
    wide = max(map(len, record))
    return [f"{name:<{wide}}  {'-' if value is None else value}" for name, value in record.items()]


def _option(found: re.Match[str]) -> str:
    name = "--" + (found[1] or found[2]).replace("_", "-")
    return name if found[3] in (None, "=True") else name + " "
