"""The console: forms without a script, pages that hold what was asked for and errors that hold nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.refused import refused
from tests.serve.conftest import SECRET, TITLES, Records, Serving, make_model
from twofold.errors import BadValue, CatalogError
from twofold.federation.plan import CatalogKey, Plan
from twofold.serve.answers import Answers
from twofold.serve.api import build_app
from twofold.serve.console import console_routes, read_basket
from twofold.serve.pages import cost_table, quality_sections

PAGES = ("/", "/similar", "/quality", "/privacy", "/cost")


def ask(serving: Serving, method: str, path: str, *, records: Records | None = None, **more: Any) -> httpx.Response:
    files = {} if records is None else vars(records)
    app = build_app(serving.api, more=console_routes(serving.api, **files))
    with serving.client(app=app) as client:
        return client.request(method, path, **more)


def words(answer: httpx.Response) -> str:
    body = answer.text.partition("<body")[2]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body))


@pytest.mark.parametrize("path", PAGES)
def test_every_page_has_a_strict_policy_and_nothing_to_fetch(serving: Serving, path: str) -> None:
    answer = ask(serving, "GET", path)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "form-action 'self'" in policy
    assert "unsafe" not in policy
    assert "script-src" not in policy
    assert not re.search(r"<script|<link|https?:|\bsrc=|\bstyle=|\bon[a-z]+=", answer.text)
    assert answer.headers["cache-control"] == "no-store"
    assert answer.text.count('aria-current="page"') == 1


def test_a_users_items_with_titles_and_reasons(serving: Serving) -> None:
    answer = ask(serving, "POST", "/", data={"user": SECRET, "n": "3"})
    shown = words(answer)
    for one in serving.model.recommend(SECRET, 3):
        assert TITLES[one.item] in shown
        told = serving.model.explain(SECRET, one.item, 4)
        assert all(TITLES[each.item] in shown for each in told.reasons)
    assert shown.count("Everything else") == 3


def test_a_typed_in_basket_by_id_and_by_title(serving: Serving) -> None:
    answer = ask(serving, "POST", "/", data={"basket": f"item-3 = 2\n{TITLES['item-5']}\n", "n": "2"})
    shown = words(answer)
    for one in serving.model.recommend({"item-3": 2, "item-5": 1}, 2):
        assert TITLES[one.item] in shown


def test_an_empty_basket_is_asked_back(serving: Serving) -> None:
    answer = ask(serving, "POST", "/", data={"user": " ", "basket": "", "n": "2"})
    assert answer.status_code == 422
    assert "user id or a basket" in answer.text


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"user": f"{SECRET}x"}, 404),
        ({"basket": f"{SECRET} = 1"}, 422),
        ({"basket": "item-1 = many"}, 422),
        ({"basket": "item-1 = nan"}, 422),
        ({"basket": "= 3"}, 422),
        ({"basket": "item-1 = -3"}, 422),
        ({"user": SECRET, "basket": "item-1"}, 422),
        ({"user": SECRET, "n": "0"}, 422),
        ({"user": SECRET, "n": "9" * 5000}, 422),
        ({str(at): "x" for at in range(20)}, 422),
    ],
)
def test_bad_forms_are_told_on_the_page(serving: Serving, fields: dict[str, str], status: int) -> None:
    answer = ask(serving, "POST", "/", data=fields)
    assert answer.status_code == status
    assert SECRET not in re.sub(r"<(textarea|input)[^>]*(>[^<]*</textarea)?>", "", answer.text)


def test_what_was_typed_is_escaped(serving: Serving) -> None:
    answer = ask(serving, "POST", "/", data={"basket": '</textarea><script>alert("x")</script>'})
    assert "<script" not in answer.text
    answer = ask(serving, "GET", "/similar", params={"item": '"><script>'})
    assert "<script" not in answer.text


def test_similar_items_by_title(serving: Serving) -> None:
    shown = words(ask(serving, "GET", "/similar", params={"item": TITLES["item-4"], "n": "2"}))
    assert f"Most like {TITLES['item-4']}" in shown
    for one in serving.model.similar_items("item-4", 2):
        assert TITLES[one.item] in shown
    assert ask(serving, "GET", "/similar", params={"item": "nothing"}).status_code == 404


def test_quality_is_that_of_the_saved_figures(serving: Serving) -> None:
    shown = words(ask(serving, "GET", "/quality"))
    assert "saved in the model" in shown
    for figure in ("0.5000", "0.5500", "0.6100"):
        assert figure in shown
    assert "0.0500 smaller" in shown
    alone = make_model(validation=(), strength=0.0)
    assert "No figures" in quality_sections(alone)[0].blocks[0].html()


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"strength": 0.0, "loss": 0.5}, "the own data"),
        ({"strength": 30.0, "loss": 0.545}, "less than one standard error"),
        ({"strength": 30.0, "loss": 0.7}, "larger than"),
    ],
)
def test_quality_says_no_more_than_the_figures(chosen: dict[str, float], said: str) -> None:
    alone = {"kind": "item-item", "strength": 0.0, "loss": 0.55, "error": 0.02}
    model = make_model(validation=(alone, {"kind": "x", "error": 0.02, "taken": True, **chosen}))
    assert said in "".join(block.html() for block in quality_sections(model)[0].blocks)


def test_card_ledger_and_approvals_are_shown(serving: Serving, records: Records) -> None:
    shown = words(ask(serving, "GET", "/privacy", records=records))
    for word in ("Privacy card: visits", "best guess", "Spent", "dpo-weber", "approved", "released"):
        assert word in shown


def test_without_files_the_page_names_the_options(serving: Serving) -> None:
    shown = words(ask(serving, "GET", "/privacy"))
    assert all(option in shown for option in ("--card", "--ledger", "--log"))


def test_broken_files_are_told_and_the_rest_is_shown(serving: Serving, records: Records) -> None:
    records.card.write_text("<!doctype html>")
    records.log.write_bytes(b"{}\n")
    records.ledger = Path("nothing.ledger")
    answer = ask(serving, "GET", "/privacy", records=records)
    assert answer.status_code == 200
    assert answer.text.count('class="notice warning"') == 3


def test_the_price_of_another_epsilon_comes_from_the_plan(serving: Serving) -> None:
    shown = words(ask(serving, "GET", "/cost", params={"epsilon": "0,5"}))
    assert " 0.5 " in shown
    assert "(plan)" in shown
    for bad in ("none", "-1", "0", "nan", "1e9"):
        assert ask(serving, "GET", "/cost", params={"epsilon": bad}).status_code == 422


def test_the_table_of_prices_is_that_of_the_plans() -> None:
    plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=457), n_users=900, n_entities=205, epsilon=1.0)
    rows = {row[0]: row for row in cost_table(plan, [2.0]).rows}
    assert list(rows) == ["0.1", "0.3", "1 (plan)", "2", "3", "10"]
    assert rows["1 (plan)"][1] == "73.2%"
    other = plan.with_(epsilon=2.0)
    assert rows["2"][2] == f"{other.spec.noise.counts:,.3g}"
    assert rows["2"][6] == other.spec.mechanism


def test_a_model_without_a_plan_has_no_price(serving: Serving) -> None:
    make_model(plan=None, lower=0.0, bound=5.0, factors_hash="").save(serving.folder / "st-anna.model")
    assert serving.api.current.refresh()
    assert "without a plan" in words(ask(serving, "GET", "/cost"))


def test_a_stale_model_shows_on_every_page(serving: Serving) -> None:
    (serving.folder / "st-anna.model").write_bytes(b"garbage")
    serving.api.current.refresh()
    for path in PAGES:
        assert "goes on answering" in ask(serving, "GET", path).text


def test_pages_need_the_token_and_browsers_are_asked_for_it(serving: Serving) -> None:
    serving.api.token = b"correct-horse-battery-staple"
    for path in PAGES:
        answer = ask(serving, "GET", path)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Basic ")
    assert ask(serving, "GET", "/", auth=("anybody", "correct-horse-battery-staple")).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "same-origin", "origin": "null"}, 200),
        ({"sec-fetch-site": "cross-site", "origin": "https://evil.example"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "http://127.0.0.1"}, 200),
        ({"origin": "null"}, 403),
    ],
)
def test_a_form_of_another_site_is_refused(serving: Serving, headers: dict[str, str], status: int) -> None:
    assert ask(serving, "POST", "/", data={"user": SECRET}, headers=headers).status_code == status


def test_a_rating_needs_a_number() -> None:
    model = make_model()
    ratings = make_model(
        history=type(model.history)(model.history.matrix, model.history.user_ids, model.catalog, "ratings"),
        plan=Plan(catalog=model.catalog, feedback="ratings", bound=5, lower=0, max_items=6, rank=3, n_users=20),
    )
    with refused(BadValue, "basket"):
        read_basket("item-1", Answers(ratings))
    assert read_basket("item-1 = 4", Answers(ratings)) == {"item-1": 4.0}


def test_the_same_title_twice_names_no_item(serving: Serving) -> None:
    answers = serving.api.current.answers
    titles = answers._titles
    assert titles is not None
    again = Answers(serving.model, titles=titles.set(titles == TITLES["item-2"], TITLES["item-1"]))
    assert again.item_named(TITLES["item-1"]) == TITLES["item-1"]
    assert again.item_named(TITLES["item-3"]) == "item-3"


def test_an_unknown_line_of_a_basket_is_named_by_its_number() -> None:
    answers = Answers(make_model())
    known = str(answers.items[0])
    with refused(CatalogError, "basket", f"did you mean {known}", found="line 3"):
        read_basket(f"{known}\n\n{known}x = 2\n", answers)
    with refused(BadValue, "basket", found="line 1"):
        read_basket(f"{known} = many", answers)


def test_an_own_model_is_compared_with_nobody() -> None:
    lines: list[dict[str, Any]] = [
        {"kind": "item-item", "strength": 0.0, "loss": loss, "error": 0.1} for loss in (0.5, 0.6, 0.7)
    ]
    lines[0]["taken"] = True
    model = replace(make_model(validation=tuple(lines), strength=0.0), factors_hash="")
    shown = "".join(block.html() for section in quality_sections(model) for block in section.blocks)
    assert "nothing was shared" in shown
    assert "1 candidates" not in shown
    assert "0.7000" not in shown
