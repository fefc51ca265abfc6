"""The page of the audit's findings: each has tests, and each test it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "results" / "audit.md").read_text()
#: Every finding, with the parts that were reproduced one by one.
FINDINGS = ("H1", "H2", "M1", "M2", "M3", "M4a", "M4b", "M4c", "M4d", "L1", "L2", "L3", "L4")
ROWS = [line for line in PAGE.splitlines() if re.match(r"\| [HML][0-9]", line)]
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE)))


@pytest.mark.parametrize("finding", FINDINGS)
def test_every_finding_has_a_test(finding: str) -> None:
    rows = [row for row in ROWS if row.startswith(f"| {finding} |")]
    assert rows
    for row in rows:
        assert len(row.split(" | ")) == 4, row
        assert re.search(r"`tests/[\w/]+\.py::test_\w+`", row), row


def test_no_other_finding_is_on_the_page() -> None:
    assert {row.split()[1] for row in ROWS} == set(FINDINGS)


@pytest.mark.parametrize(("file", "name"), TESTS)
def test_every_test_on_the_page_exists(file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text())
    assert name in {one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)}
