"""The report of an entity: everything on one page, nothing private on the public one."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tests.entity.evaluated import federation, people
from tests.refused import refused
from twofold.entity.evaluate import Evaluation, evaluate
from twofold.entity.personalize import fit_alone
from twofold.errors import PlanMismatch
from twofold.federation.plan import Plan
from twofold.report.model_page import model_page
from twofold.report.plot import Plot


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    made = federation(60, 300)
    every = ["alone", "popularity", "item-item", "shared", "shared-popularity", "random"]
    return evaluate(made.models["e0"], factors=made.factors, against=every, resamples=50)


def test_the_verdict_is_read_first_and_all_figures_are_there(evaluation: Evaluation) -> None:
    made = federation(60, 300)
    page = model_page(made.models["e0"], evaluation=evaluation, factors=made.factors, received=12_345)
    assert page.notice is not None
    assert page.notice.text == evaluation.verdict
    titles = [section.title for section in page.sections]
    assert titles == ["Quality", "The model against each baseline", "Two messages", "The data here", "The model"]
    text = page.html()
    for system in evaluation.systems:
        assert f"{evaluation.of(system, 'ndcg')['value']:.3f}" in text
    assert repr(evaluation.of("model", "ndcg")["value"]) in text  # as text to copy
    for caveat in evaluation.caveats:
        assert caveat.split("'")[0] in text
    assert "12.3 kB of factors" in text
    assert "the messages of 2 entities" in text
    assert text == page.html()


def test_a_model_in_use_of_another_kind_is_said_at_the_top(evaluation: Evaluation) -> None:
    page = model_page(federation(60, 300).models["e0"], evaluation=replace(evaluation, another="in use; judged"))
    assert page.notice is not None
    assert "in use; judged" in page.notice.more


def test_systems_are_told_apart_by_marker_dash_place_and_name(evaluation: Evaluation) -> None:
    made = federation(60, 300)
    page = model_page(made.models["e0"], evaluation=evaluation)
    [drawn, *_] = [block for section in page.sections for block in section.blocks if isinstance(block, Plot)]
    assert drawn.direct
    assert len(drawn.series) == 6
    assert len({one.offset for one in drawn.series}) == len({one.style for one in drawn.series}) == 6
    assert all(one.interval is not None for one in drawn.series)


def test_the_page_is_one_file_that_fetches_and_runs_nothing(evaluation: Evaluation) -> None:
    text = model_page(federation(60, 300).models["e0"], evaluation=evaluation).html()
    tags = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append((tag, dict(attrs)))

    Tags().feed(text)
    assert not {"script", "img", "iframe", "link"} & {tag for tag, _ in tags}
    assert "http://" not in text
    assert "https://" not in text
    assert not [one for _, one in tags if any(name.startswith("on") for name in one)]
    scrolled = [one for tag, one in tags if tag == "div" and one.get("class") == "scroll"]
    assert all(one["tabindex"] == "0" and one["role"] == "region" for one in scrolled)
    assert scrolled


def test_no_person_is_named(evaluation: Evaluation) -> None:
    model = federation(60, 300).models["e0"]
    text = model_page(model, evaluation=evaluation).html()
    assert not [user for user in model.history.user_ids if re.search(rf"\b{user}\b", text)]


def test_a_public_page_does_not_depend_on_the_data(evaluation: Evaluation) -> None:
    made = federation(60, 300)
    model = made.models["e0"]
    page = model_page(model, evaluation=evaluation, factors=made.factors, public=True)
    assert [section.title for section in page.sections] == ["Two messages"]
    text = page.html()
    assert evaluation.verdict not in text
    from dataclasses import replace

    fewer = replace(model, history=model.history.take(range(7)), validation=(), note="", strength=1.0)
    assert model_page(fewer, factors=made.factors, public=True).html() == text


def test_a_model_alone_has_a_page(evaluation: Evaluation) -> None:
    alone = fit_alone(people(40, 1), name="anna")
    page = model_page(alone, evaluation=evaluate(alone, against=["popularity"], resamples=20))
    assert "Nothing was shared" in page.html()
    bare = model_page(fit_alone(people(40, 1).take([])), evaluation=None)
    assert [section.title for section in bare.sections] == ["Two messages", "The data here", "The model"]


def test_a_card_of_another_plan_is_refused() -> None:
    class Other:
        plan = "ab" * 32

    made = federation(60, 300)
    assert isinstance(made.plan, Plan)
    with refused(PlanMismatch, "card", found="abab", expected=made.plan.hash[:12]):
        model_page(made.models["e0"], card=Other())  # type: ignore[arg-type]
    with refused(PlanMismatch, "card"):
        model_page(fit_alone(people(40, 1)), card=Other())  # type: ignore[arg-type]
