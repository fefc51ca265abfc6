"""Errors: one form, one heading each in the docs, whole across processes."""

from __future__ import annotations

import inspect
import pickle
from pathlib import Path

import pytest

from twofold import errors

DOCS = Path(__file__).parents[1] / "docs" / "errors.md"
ALL = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.TwofoldError)]


@pytest.mark.parametrize("kind", ALL)
def test_every_error_has_a_heading_in_the_docs(kind: type[errors.TwofoldError]) -> None:
    headings = [line[3:].strip() for line in DOCS.read_text().splitlines() if line.startswith("## ")]
    assert kind.anchor().replace("-", " ") in [heading.lower() for heading in headings]


@pytest.mark.parametrize("kind", ALL)
def test_every_error_survives_a_process_border(kind: type[errors.TwofoldError]) -> None:
    error = kind("what {parameter} is.", found="this", expected="that", fix="do so", parameter="rank")
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), back.fix, back.parameter) == (kind, str(error), "do so", "rank")
    assert back.summary == "what rank is."


def test_every_error_is_public_and_in_the_tree() -> None:
    assert {kind.__name__ for kind in ALL} == set(errors.__all__) - {"Run", "Set", "Surface"}
    assert errors.__doc__ is not None
    assert all(kind.__name__ in errors.__doc__ for kind in ALL)
