"""The model's file is replaced while it is served: at once, without a pause, and never by something else."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import httpx
import polars as pl
import pytest

from tests.refused import refused
from tests.serve.conftest import SECRET, TITLES, Serving, make_model
from twofold.errors import BadModel, PlanMismatch, TransportError
from twofold.serve.api import LIMITS, Api, build_app
from twofold.serve.current import Current
from twofold.server.service.run import Running, server_for


def test_a_new_file_takes_the_place_of_the_old_one(serving: Serving) -> None:
    before = serving.get(f"/recommendations/{SECRET}").json()
    assert not serving.api.current.refresh()
    make_model(seed=1).save(serving.folder / "st-anna.model")
    assert serving.api.current.refresh()
    after = serving.get(f"/recommendations/{SECRET}").json()
    assert (before["generation"], after["generation"]) == (1, 2)
    assert before["recommendations"] != after["recommendations"]  # nothing of the old cache
    assert serving.get("/health").json()["status"] == "ok"


GARBAGE = {
    "noise": os.urandom(2_000),
    "nothing": b"",
    "cut off": None,
    "text": b"item,title\n",
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_a_bad_file_keeps_the_old_model_and_shows_in_health(serving: Serving, kind: str) -> None:
    file = serving.folder / "st-anna.model"
    good, answer = file.read_bytes(), serving.get(f"/recommendations/{SECRET}").content
    file.write_bytes(GARBAGE[kind] if GARBAGE[kind] is not None else good[:-100])  # type: ignore[arg-type]
    assert not serving.api.current.refresh()
    told = serving.get("/health").json()
    assert (told["status"], told["generation"], told["problem"]["error"]) == ("stale", 1, "BadModel")
    assert serving.get(f"/recommendations/{SECRET}").content == answer
    assert "twofold_serve_model_stale 1" in serving.get("/metrics").text
    assert not serving.api.current.refresh()  # not tried again before it changes
    assert serving.api.current.failures == 1
    file.write_bytes(good)
    assert serving.api.current.refresh()
    assert serving.get("/health").json()["problem"] is None


def test_a_file_that_goes_away_changes_nothing(serving: Serving) -> None:
    (serving.folder / "st-anna.model").unlink()
    assert not serving.api.current.refresh()
    assert serving.get("/health").json()["problem"]["error"] == "TransportError"
    assert serving.get(f"/recommendations/{SECRET}").status_code == 200


def test_a_model_of_another_entity_is_not_served_in_its_place(serving: Serving) -> None:
    make_model(entity="st-bern").save(serving.folder / "st-anna.model")
    assert not serving.api.current.refresh()
    assert serving.get("/health").json()["problem"]["error"] == "PlanMismatch"


def test_the_first_file_must_be_a_model_and_the_item_list_its_own(folder: Path) -> None:
    with refused(TransportError):
        Current(folder / "nothing.model")
    with refused(BadModel):
        Current(folder / "items.csv")
    pl.DataFrame({"item": ["a", "b"]}).write_csv(folder / "other.csv")
    with refused(PlanMismatch, "catalog", "2 items"):
        Current(folder / "st-anna.model", catalog=folder / "other.csv")


def test_no_request_fails_while_models_change(folder: Path) -> None:
    """Readers ask all the time while the file is replaced, by models and by garbage."""
    file = folder / "st-anna.model"
    models = [make_model(seed=seed) for seed in (1, 2)]
    api = Api(Current(file), poll=0.02)
    seen: set[int] = set()
    faults: list[object] = []
    done = threading.Event()

    def ask(url: str) -> None:
        with httpx.Client(base_url=url) as client:
            while not done.is_set():
                answer = client.get(f"/recommendations/{SECRET}")
                if answer.status_code != 200:
                    faults.append(answer.status_code)
                seen.add(answer.json()["generation"])

    with Running(server_for(build_app(api), LIMITS, host="127.0.0.1", port=0)) as running:
        readers = [threading.Thread(target=ask, args=(running.url,)) for _ in range(2)]
        for one in readers:
            one.start()
        try:
            for at, model in enumerate((*models, *models)):
                file.write_bytes(b"garbage")
                wait(lambda failed=at: api.current.failures > failed)
                model.save(file)
                wait(lambda at=at: api.current.answers.generation >= at + 2)
        finally:
            done.set()
            for one in readers:
                one.join()
    assert faults == []
    assert len(seen) > 1
    assert api.current.problem is None


def wait(what: object) -> None:
    until = time.monotonic() + 30
    while not what():  # type: ignore[operator]
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize("given", [["item-0", "item-1"], ["item,title"], None], ids=["another", "no list", "none"])
def test_the_item_list_beside_a_model_is_used_if_it_is_the_models(serving: Serving, given: list[str] | None) -> None:
    file = serving.folder / "st-anna.model"
    assert Current(file).answers.title("item-4") == TITLES["item-4"]
    beside = serving.folder / "items.csv"
    beside.unlink()
    if given is not None:
        beside.write_text("\n".join(["item", *given]))
    assert Current(file).answers.title("item-4") is None
