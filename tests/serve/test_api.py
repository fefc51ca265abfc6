"""Requests of a served model: the same answers as Python gives, and refusals that hold nothing private."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import date
from typing import Any
from uuid import UUID

import httpx
import pytest

from tests.serve.conftest import SECRET, TITLES, Serving, make_model
from twofold.serve.answers import Answers
from twofold.serve.api import MOST_BYTES, Api, build_app
from twofold.serve.current import Current
from twofold.server.service.limits import Limits

TOKEN = b"correct-horse-battery-staple"


def items_of(answer: httpx.Response, field: str = "recommendations") -> list[str]:
    assert answer.status_code == 200, answer.text
    return [one["item"] for one in answer.json()[field]]


def test_a_users_list_is_that_of_the_model(serving: Serving) -> None:
    answer = serving.get(f"/recommendations/{SECRET}?n=4")
    wanted = serving.model.recommend(SECRET, 4)
    rows = answer.json()["recommendations"]
    assert [(one["item"], one["score"]) for one in rows] == [(a, pytest.approx(b)) for a, b in wanted]
    assert [one["title"] for one in rows] == [TITLES[one.item] for one in wanted]
    assert answer.headers["cache-control"] == "no-store"
    assert serving.get(f"/recommendations/{SECRET}?n=4").content == answer.content  # from the cache
    assert (serving.api.current.answers.cache.found, serving.api.current.answers.cache.missed) == (1, 1)


def test_seen_items_come_only_if_asked_for(serving: Serving) -> None:
    had = {serving.model.catalog.items[at] for at in serving.model.history.matrix[[0]].indices}
    assert had.isdisjoint(items_of(serving.get(f"/recommendations/{SECRET}?n=12")))
    assert had <= set(items_of(serving.get(f"/recommendations/{SECRET}?n=12&seen=true")))


def test_reasons_and_rest_add_up_to_the_score(serving: Serving) -> None:
    for one in serving.get(f"/recommendations/{SECRET}?n=3&why=true").json()["recommendations"]:
        told = sum(each["contribution"] for each in one["reasons"]) + one["rest"]
        assert told == pytest.approx(one["score"], abs=1e-6)
        assert all(each["title"] == TITLES[each["item"]] for each in one["reasons"])


def test_one_basket_a_batch_and_users_by_post(serving: Serving) -> None:
    model, basket = serving.model, {"item-3": 2, "item-5": 1}
    one = serving.post("/recommendations", json={"basket": basket, "n": 3})
    assert items_of(one) == [each.item for each in model.recommend(basket, 3)]
    batch = serving.post("/recommendations", json={"baskets": [basket, ["item-1"], {}], "n": 2}).json()["lists"]
    people: list[Any] = [basket, {"item-1": 1}, {}]
    assert [[each["item"] for each in some] for some in batch] == [
        [each.item for each in model.recommend(who, 2)] for who in people
    ]
    users = serving.post("/recommendations", json={"users": [SECRET, "patient-3"], "only": ["item-1", "item-2"]}).json()
    assert [len(some) <= 2 for some in users["lists"]] == [True, True]
    assert serving.post("/recommendations", json={"baskets": []}).json()["lists"] == []
    assert items_of(serving.post("/recommendations", json={"user": SECRET})) == items_of(
        serving.get(f"/recommendations/{SECRET}")
    )


def test_a_long_batch_is_answered_in_its_order(serving: Serving) -> None:
    baskets = [{f"item-{(at + each) % 12}": 1 + at % 3 for each in range(8)} for at in range(1_000)]
    assert len(json.dumps(baskets)) > 64 << 10  # read on a thread
    lists = serving.post("/recommendations", json={"baskets": baskets, "n": 2}).json()["lists"]
    assert len(lists) == 1_000
    for at in (0, 499, 999):
        wanted = serving.model.recommend(baskets[at], 2)
        assert [one["item"] for one in lists[at]] == [one.item for one in wanted]


def test_similar_items(serving: Serving) -> None:
    answer = serving.get("/items/item-4/similar?n=3")
    assert items_of(answer, "similar") == [one.item for one in serving.model.similar_items("item-4", 3)]
    assert (answer.json()["item"], answer.json()["title"]) == ("item-4", TITLES["item-4"])


def test_why_by_query_and_by_post(serving: Serving) -> None:
    asked = serving.get("/why", params={"user": SECRET, "item": "item-4", "n": 2})
    told = serving.model.explain(SECRET, "item-4", 2)
    assert asked.json()["score"] == pytest.approx(told.score)
    assert [one["item"] for one in asked.json()["reasons"]] == [one.item for one in told.reasons]
    assert serving.post("/why", json={"user": SECRET, "item": "item-4", "n": 2}).json() == asked.json()
    new = serving.post("/why", json={"basket": {"item-1": 3}, "item": "item-4"}).json()
    assert [one["item"] for one in new["reasons"]] == ["item-1"]


@pytest.mark.parametrize(
    ("users", "path"),
    [
        (list(range(20)), "17"),
        ([date(2020, 1, at + 1) for at in range(20)], "2020-01-18"),
        ([UUID(int=at) for at in range(20)], str(UUID(int=17))),
        ([bytes([at, 255]) for at in range(20)], "11ff"),
        ([f"a/b ü?{at}" for at in range(20)], "a%2Fb%20%C3%BC%3F17"),
    ],
    ids=["integers", "dates", "uuids", "bytes", "text with slashes"],
)
def test_ids_of_every_type_are_found(serving: Serving, users: list[Any], path: str) -> None:
    make_model(users=users).save(serving.folder / "st-anna.model")
    assert serving.api.current.refresh()
    assert items_of(serving.get(f"/recommendations/{path}")) == [one.item for one in serving.model.recommend(users[17])]


def test_a_query_is_read_as_browsers_write_it(serving: Serving) -> None:
    make_model(users=["a+b", "a b", *(f"ü{at}" for at in range(18))]).save(serving.folder / "st-anna.model")
    assert serving.api.current.refresh()
    for text, user in (("a%2Bb", "a+b"), ("a+b", "a b"), ("%C3%BC3", "ü3")):
        told = serving.get(f"/why?user={text}&item=item-4").json()
        assert told["score"] == pytest.approx(serving.model.explain(user, "item-4").score)
    assert serving.get("/why?user=&item=item-4").status_code == 404  # an empty id is an id
    assert serving.get("/why?user=a+b&user=a+b&item=item-4").status_code == 422


def test_whole_number_items_stay_numbers() -> None:
    answers = Answers(make_model(items=list(range(100, 112))))
    assert json.loads(answers.similar(answers.item("104"), 1))["item"] == 104
    assert answers.basket({"104": 2}) == {104: 2}


BAD_BODIES: dict[str, tuple[Any, int, str | None]] = {
    "not JSON": (b"{", 400, "body"),
    "not UTF-8": (b'{"user": "\xff"}', 400, "body"),
    "NaN": (b'{"basket": {"item-1": NaN}}', 400, "body"),
    "infinity": (b'{"basket": {"item-1": 1e999}}', 400, "body"),
    "a key twice": (b'{"n": 1, "n": 2, "basket": {}}', 400, "body"),
    "a list": (b"[]", 400, "body"),
    "nested": (b'{"basket": ' + b"[" * 5000 + b"]" * 5000 + b"}", 400, "body"),
    "nobody": ({}, 422, "user"),
    "two people": ({"user": SECRET, "basket": {}}, 422, "user"),
    "unknown field": ({"basket": {}, SECRET: 1}, 422, "fields"),
    "unknown user": ({"user": f"{SECRET}x"}, 404, "user"),
    "user of another type": ({"user": 17}, 404, "user"),
    "user is an object": ({"user": {SECRET: 1}}, 404, "user"),
    "users is no list": ({"users": SECRET}, 422, "users"),
    "basket is text": ({"basket": SECRET}, 422, "basket"),
    "basket with text": ({"basket": {"item-1": SECRET}}, 422, "basket"),
    "basket with true": ({"basket": {"item-1": True}}, 422, "basket"),
    "basket with a list": ({"basket": [["item-1"]]}, 422, "basket"),
    "negative count": ({"basket": {"item-1": -1}}, 422, "history"),
    "unknown items": ({"basket": {SECRET: 1}}, 422, "history"),
    "unknown item in only": ({"basket": {}, "only": [SECRET]}, 404, "item"),
    "only is text": ({"basket": {}, "only": SECRET}, 422, "only"),
    "n is 0": ({"basket": {}, "n": 0}, 422, "n"),
    "n is text": ({"basket": {}, "n": "5"}, 422, "n"),
    "n is a fraction": ({"basket": {}, "n": 1.5}, 422, "n"),
    "n is true": ({"basket": {}, "n": True}, 422, "n"),
    "n is huge": ({"basket": {}, "n": 10**9}, 422, "n"),
    "seen is a word": ({"basket": {}, "seen": "yes"}, 422, "seen"),
    "too many baskets": ({"baskets": [{}] * 1_001}, 422, "baskets"),
    "too much together": ({"baskets": [{}] * 500, "n": 1_000}, 422, "n"),
    "too much to explain": ({"baskets": [{}] * 101, "n": 10, "why": True}, 422, "n"),
}


@pytest.mark.parametrize(("body", "status", "parameter"), BAD_BODIES.values(), ids=BAD_BODIES)
def test_a_bad_body_gets_one_clear_error(serving: Serving, body: Any, status: int, parameter: str | None) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = serving.post("/recommendations", content=content, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["parameter"]) == (status, parameter), answer.text
    assert SECRET not in answer.text
    assert set(answer.json()) == {"error", "summary", "found", "expected", "fix", "parameter"}


BAD_PATHS: dict[str, tuple[str, int]] = {
    "unknown user": (f"/recommendations/{SECRET}x", 404),
    "no user": ("/recommendations/", 404),
    "a very long user": (f"/recommendations/{'x' * 5000}", 404),
    "unknown item": (f"/items/{SECRET}/similar", 404),
    "n is no number": ("/recommendations/patient-1?n=many", 422),
    "n is too large": ("/recommendations/patient-1?n=1001", 422),
    "n is negative": ("/recommendations/patient-1?n=-1", 422),
    "n is in other digits": ("/recommendations/patient-1?n=%D9%A3", 422),
    "n twice": ("/recommendations/patient-1?n=1&n=2", 422),
    "unknown field": (f"/recommendations/patient-1?{SECRET}=1", 422),
    "why is a word": ("/recommendations/patient-1?why=yes", 422),
    "why without a user": ("/why?item=item-1", 422),
    "why without an item": (f"/why?user={SECRET}", 422),
    "why for an unknown user": (f"/why?user={SECRET}x&item=item-1", 404),
    "why of an unknown item": (f"/why?user=patient-1&item={SECRET}", 404),
    "no such path": (f"/nothing/{SECRET}", 404),
}


@pytest.mark.parametrize(("path", "status"), BAD_PATHS.values(), ids=BAD_PATHS)
def test_a_bad_address_gets_one_clear_error(serving: Serving, path: str, status: int) -> None:
    answer = serving.get(path)
    assert answer.status_code == status, answer.text
    assert answer.json()["summary"]
    assert SECRET not in answer.text


HEADERS: dict[str, tuple[dict[str, str], int]] = {
    "another type": ({"content-type": "text/plain"}, 415),
    "no type": ({"content-type": ""}, 415),
    "packed": ({"content-type": "application/json", "content-encoding": "gzip"}, 415),
    "a huge length": ({"content-type": "application/json", "content-length": str(MOST_BYTES + 1)}, 413),
    "no length": ({"content-type": "application/json", "content-length": "many"}, 411),
    "longer than it says": ({"content-type": "application/json", "content-length": "1"}, 413),
    "another site": ({"content-type": "application/json", "origin": "https://evil.example"}, 403),
}


@pytest.mark.parametrize(("headers", "status"), HEADERS.values(), ids=HEADERS)
def test_a_body_is_judged_by_its_headers_first(serving: Serving, headers: dict[str, str], status: int) -> None:
    answer = serving.post("/recommendations", content=b'{"basket": {}}', headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.headers["connection"] == "close"


def _asked(serving: Serving, came: list[dict[str, Any]], length: int) -> list[dict[str, Any]]:
    """What the application sends to a request whose body comes in these parts; then nothing more comes."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if not came:
            await asyncio.Event().wait()
        return came.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    headers = {"host": "localhost", "content-type": "application/json", "content-length": str(length)}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/recommendations",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    asyncio.run(build_app(serving.api)(scope, receive, send))
    return sent


BODY = b'{"basket": {"item-1": 2}}'


def test_a_body_may_come_in_parts(serving: Serving) -> None:
    parts = [BODY[at : at + 10] for at in range(0, len(BODY), 10)]
    came = [{"type": "http.request", "body": one, "more_body": one != parts[-1]} for one in parts]
    start, body = _asked(serving, came, len(BODY))
    assert start["status"] == 200
    assert body["body"] == serving.post("/recommendations", json={"basket": {"item-1": 2}}).content


def test_a_sender_who_goes_away_or_is_too_slow_is_told_so(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = {"type": "http.request", "body": BODY[:10], "more_body": True}
    gone = _asked(serving, [begun, {"type": "http.disconnect"}], len(BODY))
    assert (gone[0]["status"], json.loads(gone[1]["body"])["summary"]) == (400, "the sender went away.")
    monkeypatch.setattr("twofold.serve.api.LIMITS", Limits(pause_seconds=0.01))
    slow = _asked(serving, [begun], len(BODY))
    assert (slow[0]["status"], json.loads(slow[1]["body"])["parameter"]) == (408, "time")


def test_wrong_methods_are_told_from_wrong_paths(serving: Serving) -> None:
    with serving.client() as client:
        assert client.delete(f"/recommendations/{SECRET}").status_code == 405
        assert client.get("/recommendations").status_code == 405
        assert client.put("/why").status_code == 405
        assert client.head("/recommendations").status_code == 405
        assert client.head(f"/why?user={SECRET}&item=item-1").status_code == 200
        assert client.head(f"/recommendations/{SECRET}").status_code == 200


def test_without_a_token_only_names_of_this_machine_are_answered(serving: Serving) -> None:
    """A page whose own name was made to point here (DNS rebinding) would send that name."""
    for host, status in (("127.0.0.1:8080", 200), ("localhost", 200), ("[::1]:9", 200), ("evil.example", 421)):
        assert serving.get(f"/recommendations/{SECRET}", headers={"host": host}).status_code == status
        assert serving.get("/health", headers={"host": host}).status_code == status


def test_with_a_token_everything_but_health_needs_it(serving: Serving) -> None:
    serving.api.token = TOKEN
    paths = (f"/recommendations/{SECRET}", "/items/item-1/similar", "/metrics", "/openapi.json")
    for path in paths:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic !"}, {"authorization": ""}):
            answer = serving.get(path, headers=headers)
            assert (answer.status_code, answer.json()["parameter"]) == (401, "token")
            assert TOKEN.decode() not in answer.text
        good = {"authorization": f"Bearer {TOKEN.decode()}", "host": "app.example"}
        assert serving.get(path, headers=good).status_code == 200
    assert serving.get("/health").status_code == 200


def test_counters_name_routes_and_no_ids(serving: Serving) -> None:
    serving.get(f"/recommendations/{SECRET}")
    serving.get(f"/recommendations/{SECRET}x")
    serving.get(f"/nothing/{SECRET}")
    text = serving.get("/metrics").text
    assert 'twofold_serve_requests_total{route="/recommendations/{user}",status="200"} 1' in text
    assert 'twofold_serve_requests_total{route="/recommendations/{user}",status="404"} 1' in text
    assert 'twofold_serve_requests_total{route="other",status="404"} 1' in text
    assert 'twofold_serve_request_seconds_count{route="/recommendations/{user}"} 2' in text
    assert "twofold_serve_model_generation 1" in text
    assert SECRET not in text
    for line in text.splitlines():
        assert line.startswith("# TYPE ") or float(line.rpartition(" ")[2]) >= 0


def test_a_fault_of_ours_tells_nothing(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> bytes:
        raise KeyError(SECRET)

    monkeypatch.setattr(Answers, "list_of", broken)
    with caplog.at_level(logging.WARNING):
        answer = serving.get(f"/recommendations/{SECRET}")
    assert answer.status_code == 500
    assert SECRET not in answer.text + caplog.text
    assert "KeyError at test_api.py" in caplog.text


def test_a_request_that_outlasts_the_service_is_told_so(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ended(*_: Any, **__: Any) -> bytes:
        raise asyncio.CancelledError

    monkeypatch.setattr(Api, "scored", ended)
    answer = serving.get(f"/recommendations/{SECRET}")
    assert (answer.status_code, answer.headers["connection"]) == (503, "close")


def test_every_path_is_in_the_document(serving: Serving) -> None:
    document = serving.get("/openapi.json").json()
    routes = {
        (route.path.replace(":path", ""), method.lower())
        for route in build_app(serving.api).routes
        for method in (route.methods or ())  # type: ignore[attr-defined]
        if method != "HEAD"
    }
    assert routes == {(path, method) for path, one in document["paths"].items() for method in one}
    assert document["security"] == []
    serving.api.token = TOKEN
    told = serving.get("/openapi.json", headers={"authorization": f"Bearer {TOKEN.decode()}"}).json()
    assert told["security"] == [{"token": []}]


def test_a_long_catalog_is_scored_on_threads(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answers, and no more than some may wait."""
    short = serving.get(f"/recommendations/{SECRET}").content
    monkeypatch.setattr("twofold.serve.answers.LARGE", 1)
    api = Api(Current(serving.folder / "st-anna.model", catalog=serving.folder / "items.csv"))
    other = Serving(serving.folder, api)
    assert api.current.answers.large
    assert other.get(f"/recommendations/{SECRET}").content == short
    batch = other.post("/recommendations", json={"baskets": [{"item-1": 1}] * 5}).json()["lists"]
    assert len(batch) == 5
    monkeypatch.setattr("twofold.serve.api._WAITING", 0)
    busy = other.get("/items/item-1/similar")
    assert (busy.status_code, busy.headers["retry-after"]) == (503, "2")
