"""The console: pages for people over the same model, in the same process; forms without a script, a cookie or a CDN."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from twofold.entity.explain import Explanation
from twofold.errors import BadParameter, BadValue, CatalogError, TwofoldError
from twofold.identity.log import read_log
from twofold.privacy.ledger import Ledger, Statement, is_statement
from twofold.report.card import card_page
from twofold.report.card_file import read_card_file
from twofold.report.page import Block, Notice, Page, Paragraph, Section
from twofold.report.status_site import send_page
from twofold.serve.answers import Answers
from twofold.serve.api import Api, status_of
from twofold.serve.pages import (
    FOR_PROGRAMS,
    Field,
    Form,
    Sheet,
    catalog_table,
    cost_table,
    error_notice,
    found_items,
    ledger_section,
    plan_facts,
    quality_sections,
    timeline_section,
)

__all__ = ["console_routes", "read_basket"]

_FORM: Final = "application/x-www-form-urlencoded"
#: Bytes of a form, and items of a list on a page.
_MOST_BYTES: Final = 256 << 10
_MOST: Final = 100
#: Items that are explained on a page: those of a usual list, or the first of a long catalog, where it takes a while.
_EXPLAINED: Final = 20
_EXPLAINED_OF_MANY: Final = 1
#: Most items of a catalog that a field offers.
_OFFERED: Final = 1_000


def console_routes(
    api: Api, *, ledger: Path | None = None, log: Path | None = None, card: Path | None = None
) -> list[Route]:
    """Give the routes of the console, for `build_app(api, more=...)`.

    Parameters
    ----------
    api : Api
        The model and who may ask.
    ledger, log, card : Path, optional
        The entity's ledger or its statement, its security log and a signed card, read anew for every page.
    """
    console = _Console(api, ledger, log, card)
    routes = (
        ("/", ["GET", "POST"], console.recommend),
        ("/similar", ["GET"], console.similar),
        ("/quality", ["GET"], console.quality),
        ("/privacy", ["GET"], console.privacy),
        ("/cost", ["GET"], console.cost),
    )
    return [Route(path, api.guarded(path, work), methods=methods) for path, methods, work in routes]


def read_basket(text: str, answers: Answers) -> dict[Any, float]:
    r"""Read a typed-in basket: one item per line by its id or title, then = and a number; a count may do without.

    Examples
    --------
    >>> import polars as pl
    >>> from twofold import Catalog, fit_alone, read_ratings
    >>> table = pl.DataFrame({"user": [1, 2, 3], "item": ["a", "b", "a"], "value": [1, 2, 1]})
    >>> model = fit_alone(read_ratings(table, Catalog(["a", "b"]), feedback="counts"))
    >>> read_basket("Heparin = 2,5\nb\n\n", Answers(model, titles=pl.Series(["Heparin", "Lactate"])))
    {'a': 2.5, 'b': 1.0}
    """
    found: dict[str, float] = {}
    counts = answers.model.history.feedback == "counts"
    for at, line in enumerate(map(str.strip, text.splitlines()), 1):
        if not line:
            continue
        name, equals, value = (part.strip() for part in line.rpartition("="))
        if not equals and counts:
            name, value = value, "1"
        try:
            amount = float(value.replace(",", "."))
        except ValueError:
            amount = math.nan
        if not name or not math.isfinite(amount):
            raise BadValue(
                "a line of the basket cannot be read.", found=f"line {at}", expected="item = number", parameter="basket"
            )
        item = answers.item_named(name)
        try:
            answers.item(item)
        except CatalogError as error:
            raise error.as_(CatalogError, found=f"line {at} of the basket", parameter="basket") from None
        found[item] = found.get(item, 0.0) + amount
    return answers.basket(found)


class _Console:
    """One method per page."""

    def __init__(self, api: Api, ledger: Path | None, log: Path | None, card: Path | None) -> None:
        self.api, self._ledger, self._log, self._card = api, ledger, log, card

    def _sheet(self) -> Sheet:
        current = self.api.current
        loaded = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(current.loaded_at))
        return Sheet(answers=current.answers, loaded_at=loaded, problem=current.problem)

    async def recommend(self, request: Request) -> Response:
        """Recommend to a user or a typed-in basket."""
        given = {}
        if request.method == "POST":
            given = _fields(await self.api.body(request, _FORM, _MOST_BYTES))
        return await self._answered(partial(self._recommended, self._sheet(), given))

    async def _recommended(self, sheet: Sheet, given: dict[str, str]) -> tuple[Page, int]:
        answers, problem, sections = sheet.answers, None, []
        user, basket = given.get("user", ""), given.get("basket", "")
        if given:
            try:
                n = _number(given.get("n", "10"))
                if bool(user.strip()) == bool(basket.strip()):
                    raise BadParameter("whom is it for?", expected="a user id or a basket", parameter="user")
                who = answers.user(user.strip()) if user.strip() else read_basket(basket, answers)
                found, told = await self.api.scored(answers, partial(_explained, answers, who, n), slow=True)
                more: tuple[Block, ...] = (Paragraph(_few(answers, len(told))),) if len(told) < len(found) else ()
                sections.append(Section("Recommendations", (found_items(answers, found, told), *more)))
            except TwofoldError as error:
                problem = error
        sections += self._forms(answers, user=user, basket=basket, n=given.get("n", "10"))
        notice = None if problem is None else error_notice(problem)
        return sheet.page("./", sections, notice=notice), 200 if problem is None else status_of(problem)

    def _forms(self, answers: Answers, *, user: str, basket: str, n: str) -> list[Section]:
        count = Field("n", "How many items", "number", n if n.isdigit() else "10")
        known = Form(key="known", action="./", button="Recommend", fields=(Field("user", "User id", value=user), count))
        example = "\n".join(f"{answers.title(one) or one} = 2" for one in answers.items[0:2])
        hint = f"One item per line, by its id or its title, then = and a number. For example: {example.splitlines()[0]}"
        area = Field("basket", "What the person has had", "area", basket, hint)
        new = Form(key="new", action="./", button="Recommend for this basket", fields=(area, count))
        return [
            Section("A user of this model", (known,)),
            Section("A new person", (new, catalog_table(answers))),
            Section("For programs", (FOR_PROGRAMS,)),
        ]

    async def similar(self, request: Request) -> Response:
        """Show items like one."""
        return await self._answered(partial(self._similar, self._sheet(), dict(request.query_params)))

    async def _similar(self, sheet: Sheet, given: dict[str, str]) -> tuple[Page, int]:
        answers, problem, sections = sheet.answers, None, []
        text, n = given.get("item", ""), given.get("n", "10")
        if text.strip():
            try:
                item, count = answers.item(answers.item_named(text.strip())), _number(n)
                found = await self.api.scored(answers, partial(answers.model.similar_items, item, count), slow=True)
                sections.append(Section(f"Most like {answers.title(item) or item}", (found_items(answers, found),)))
            except TwofoldError as error:
                problem = error
        few = answers.items[0:] if len(answers.items) <= _OFFERED else []
        offered = tuple((str(one), answers.title(one) or str(one)) for one in few)
        field = Field("item", "Item", value=text, hint="Its id or its title.", options=offered)
        count_field = Field("n", "How many items", "number", n if n.isdigit() else "10")
        form = Form(key="like", action="similar", method="get", button="Find", fields=(field, count_field))
        sections.append(Section("Find similar items", (form, catalog_table(answers))))
        notice = None if problem is None else error_notice(problem)
        return sheet.page("similar", sections, notice=notice), 200 if problem is None else status_of(problem)

    async def quality(self, _: Request) -> Response:
        """Show the figures that are saved in the model."""
        sheet = self._sheet()
        return send_page(sheet.page("quality", quality_sections(sheet.answers.model)), forms=True)

    async def privacy(self, _: Request) -> Response:
        """Show card, ledger and approvals."""
        sections = await to_thread.run_sync(self._recorded)
        return send_page(self._sheet().page("privacy", sections), forms=True)

    def _recorded(self) -> list[Section]:
        logged = "Approvals and releases"
        return [
            *_read("Ledger", self._ledger, lambda path: [ledger_section(_account(path).state())], "--ledger LEDGER"),
            *_read(logged, self._log, lambda path: [timeline_section(list(read_log(path)))], "--log LOG"),
            *_read("Privacy card", self._card, _card_sections, "--card CARD"),
        ]

    async def cost(self, request: Request) -> Response:
        """Show what other ε would cost, from the plan alone."""
        return await self._answered(partial(self._cost, self._sheet(), dict(request.query_params)))

    async def _cost(self, sheet: Sheet, given: dict[str, str]) -> tuple[Page, int]:
        plan, problem = sheet.answers.model.plan, None
        if plan is None:
            alone = "This model was made without a plan: nothing was shared, and nothing was spent."
            return sheet.page("cost", [Section("No plan", (Paragraph(alone),))]), 200
        text = given.get("epsilon", "")
        asked: list[float] = []
        try:
            asked += [_epsilon(text)] if text.strip() else []
        except TwofoldError as error:
            problem = error
        table = await to_thread.run_sync(cost_table, plan, asked)
        about = "Everything here follows from the plan's public numbers. No data are touched and nothing is spent."
        field = Field("epsilon", "Another ε", "decimal", text, "A number above 0, such as 0.5.")
        form = Form(key="price", action="cost", method="get", button="Show", fields=(field,))
        sections = [
            Section("If ε were another", (Paragraph(about), form, table)),
            Section("The plan", (plan_facts(plan),)),
        ]
        notice = None if problem is None else error_notice(problem)
        return sheet.page("cost", sections, notice=notice), 200 if problem is None else status_of(problem)

    async def _answered(self, work: Callable[[], Awaitable[tuple[Page, int]]]) -> Response:
        page, status = await work()
        return send_page(page, status=status, forms=True)


def _explained(answers: Answers, who: Any, n: int) -> tuple[list[Any], dict[Any, Explanation]]:
    found = answers.model.recommend(who, n)
    most = _EXPLAINED_OF_MANY if answers.large else _EXPLAINED
    return found, {one.item: answers.model.explain(who, one.item, 4) for one in found[:most]}


def _few(answers: Answers, told: int) -> str:
    long = " because the catalog is long" if answers.large else ""
    return f"Explained: the first {told}{long}. POST /why explains any item."


def _fields(data: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(data.decode("ascii"), keep_blank_values=True, max_num_fields=8, errors="replace")
    except (UnicodeDecodeError, ValueError):
        raise BadParameter("the form cannot be read.", parameter="form") from None
    return dict(pairs)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= _MOST):
        raise BadParameter(
            "{parameter} is not a number of items.", expected=f"a whole number from 1 to {_MOST}", parameter="n"
        )
    return int(text)


def _epsilon(text: str) -> float:
    try:
        found = float(text.strip().replace(",", "."))
    except ValueError:
        found = math.nan
    if not 0.001 <= found <= 1_000:
        raise BadParameter("this is no ε.", expected="a number from 0.001 to 1,000", parameter="epsilon")
    return found


def _account(path: Path) -> Ledger | Statement:
    return Statement(path) if path.is_file() and is_statement(path) else Ledger(path)


def _card_sections(path: Path) -> Iterable[Section]:
    signed = read_card_file(path).signed
    page = card_page(signed.card, signed)
    assert page.notice is not None
    return [Section(page.title, (page.notice,)), *page.sections]


def _read(title: str, path: Path | None, read: Callable[[Path], Iterable[Section]], option: str) -> Iterable[Section]:
    """Show a file, or say what is wrong with it, or which option names one."""
    if path is None:
        return [Section(title, (Paragraph(f"No file was named. Start the service with {option} to show it here."),))]
    try:
        return read(path)
    except TwofoldError as error:
        return [Section(title, (error_notice(error),))]
    except OSError as error:
        told = f"{path.name} cannot be read: {error.strerror or type(error).__name__}."
        return [Section(title, (Notice(text=told, warning=True),))]
