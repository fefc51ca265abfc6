"""The site's words and the result of the attack tests: bounded, public, never invented."""

from __future__ import annotations

import json

import pytest

from tests.refused import refused
from twofold.errors import DataError, TransportError, UnreadableSource
from twofold.privacy.site_words import NOT_STATED, AuditResult, SiteWords, read_audit, read_site_words

RESULT = {
    "schema": "twofold.audit/1",
    "at": "2026-05-03T10:00:00Z",
    "software": "twofold 1",
    "passed": True,
    "findings": [{"broken": False, "as_expected": True}, {"broken": True, "as_expected": True}],
}


def test_what_is_not_said_is_not_invented():
    assert {SiteWords().said(name) for name in vars(SiteWords())} == {NOT_STATED}


@pytest.mark.parametrize("text", ["x" * 401, "two\nlines", "tab\t", " space", "\x1b[2J", "\u202eturned", 7, None])
def test_a_field_is_one_short_line(text):
    with refused(DataError, "curator"):
        SiteWords(curator=text)


def test_a_curator_is_of_a_known_type():
    with refused(DataError, "curator_type", expected="Government, Industry, Nonprofit"):
        SiteWords(curator_type="hospital")


def test_options_come_before_the_file(tmp_path):
    (tmp_path / "site.toml").write_text('curator = "St. Anna"\nuse = "tests"\n')
    said = read_site_words(tmp_path / "site.toml").with_(use="drugs", region=None)
    assert (said.curator, said.use, said.region) == ("St. Anna", "drugs", "")


@pytest.mark.parametrize(
    "content", [b"curator = ", b"\xff", b"a = " + b"[" * 5000, b'curator = "' + b"x" * 70_000 + b'"', b"a = 1\na = 2"]
)
def test_a_file_that_is_not_small_toml_is_refused(tmp_path, content):
    (tmp_path / "site.toml").write_bytes(content)
    with refused(UnreadableSource, "site"):
        read_site_words(tmp_path / "site.toml")


def test_an_unknown_field_is_refused(tmp_path):
    (tmp_path / "site.toml").write_text('curatr = "St. Anna"\n')
    with refused(DataError, "site", found="curatr"):
        read_site_words(tmp_path / "site.toml")


@pytest.mark.parametrize("content", ["curator = 7", "curator = ['a']", "curator = {a = 'b'}"])
def test_a_field_of_another_type_is_refused(tmp_path, content):
    (tmp_path / "site.toml").write_text(content)
    with refused(DataError, "curator"):
        read_site_words(tmp_path / "site.toml")


def test_a_missing_file_is_said(tmp_path):
    with refused(TransportError):
        read_site_words(tmp_path / "none.toml")


def test_the_result_of_an_audit_is_read(tmp_path):
    (tmp_path / "audit.json").write_text(json.dumps(RESULT))
    found = read_audit(tmp_path / "audit.json")
    assert found == AuditResult(at=RESULT["at"], software="twofold 1", passed=True, sound=1, broken=1)
    assert found.said("twofold 1").startswith("passed on 2026-05-03: 1 ")
    assert "tested: twofold 1" in found.said("twofold 2")


def test_the_attacked_mechanisms_are_read_by_their_short_names(tmp_path):
    names = ("gram, counts", "gram, counts, with δ", "Algorithm 1")
    findings = [{"mechanism": name, "broken": name == names[2], "as_expected": True} for name in names]
    (tmp_path / "audit.json").write_text(json.dumps(RESULT | {"findings": findings}))
    assert read_audit(tmp_path / "audit.json").mechanisms == ("gram",)
    (tmp_path / "audit.json").write_text(json.dumps(RESULT | {"findings": [findings[0] | {"mechanism": "a\nb"}]}))
    with refused(UnreadableSource, "audit"):
        read_audit(tmp_path / "audit.json")


@pytest.mark.parametrize(
    "change",
    [
        {"passed": False},
        {"passed": "yes"},
        {"findings": [{"broken": False, "as_expected": False}]},
        {"findings": []},
        {"findings": [{"broken": True, "as_expected": True}]},
    ],
)
def test_a_verdict_that_its_findings_contradict_has_failed(tmp_path, change):
    (tmp_path / "audit.json").write_text(json.dumps(RESULT | change))
    found = read_audit(tmp_path / "audit.json")
    assert not found.passed
    assert found.said("twofold 1").startswith("FAILED")


@pytest.mark.parametrize(
    "change",
    [{"schema": "x"}, {"at": "May"}, {"at": 3}, {"at": "2026-13-03T10:00:00Z"}, {"software": None}, {"findings": 3}],
)
def test_another_file_is_no_result(tmp_path, change):
    (tmp_path / "audit.json").write_text(json.dumps(RESULT | change))
    with refused(UnreadableSource, "audit"):
        read_audit(tmp_path / "audit.json")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50, b"[]", b"{}"])
def test_a_hostile_file_is_no_result(tmp_path, content):
    (tmp_path / "audit.json").write_bytes(content)
    with refused(UnreadableSource, "audit"):
        read_audit(tmp_path / "audit.json")
