"""The export for the registry of deployments, held against the facts of the registry's schema.

The facts are those of ``schemas/deployments-schema.yaml`` in opendp/deployments-registry-data, September 2026, told
again by hand: the fields there are, those that are required, types and words allowed. No field may be added.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.privacy.test_card import GAUSS, NUMBERS, make, operated, secure, share
from tests.refused import refused
from twofold.errors import DataError, NotForRealUse
from twofold.privacy.card import Card, card_from_ledger
from twofold.privacy.site_words import SiteWords
from twofold.report.registry import registry_entry, to_yaml

SITE = SiteWords(
    curator="St. Anna", curator_type="Nonprofit", use="recommend tests", region="Austria", sector="healthcare"
)

TEXT = str
NUMBER = (int, float)
FIELDS: dict[str, Any] = {
    "url_slug": TEXT,
    "deployment": {
        "basic": {
            "name": TEXT,
            "data_curators": [
                {"data_curator_name": TEXT, "data_curator_type": {"Government", "Industry", "Nonprofit"}}
            ],
            "description": TEXT,
            "intended_use": TEXT,
            "data_product_type": {
                *("Summary statistics", "Machine learning model", "Dataset"),
                *("Synthetic data", "Interactive API", "SQL queries"),
            },
            "data_product_region": TEXT,
            "data_product_sector": {"Technology", "Healthcare", "Education", "Government", "Energy", "Finance"},
            "publication_date": TEXT,
        },
        "dp_variant": {
            "variant_name": {"Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"},
            "data_domain": TEXT,
            "unprotected_quantities": TEXT,
        },
        "privacy_loss": {
            "privacy_unit": TEXT,
            "privacy_unit_details": TEXT,
            "number_of_privacy_units": int,
            "privacy_parameters": {"epsilon": NUMBER, "delta": (*NUMBER, str), "rho": NUMBER},
            "privacy_parameters_details": TEXT,
        },
        "deployment_model": {
            "model_name": {"Local", "Central", "Shuffle", "Federated", "Varies"},
            "model_name_details": TEXT,
            "trust_assumptions": TEXT,
            "actors": TEXT,
            "release_type": {"One release", "Many releases"},
            "release_type_details": TEXT,
            "data_source_type": {"Static", "Dynamic"},
            "data_source_type_details": TEXT,
            "access_type": {"Interactive", "Non-interactive"},
            "access_type_details": TEXT,
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": TEXT,
            "mechanisms": TEXT,
            "composition": TEXT,
            "post_processing": TEXT,
            "justification": TEXT,
            "utility": TEXT,
            "additional_information": TEXT,
        },
        "administrative": {
            "evidence_sources": dict,
            "status": {
                *("Converted", "Draft", "Pending", "Changes Required"),
                *("Approved", "Approved (Update Requested)", "Approved (Pending)"),
            },
            "registry_authors": [TEXT],
            "tier": {1, 2, 3},
        },
    },
}
REQUIRED = {
    "": {"url_slug", "deployment"},
    "deployment": {"basic", "administrative"},
    "deployment.basic": {
        *("name", "data_curators", "description", "intended_use"),
        *("data_product_type", "data_product_region", "publication_date"),
    },
    "deployment.basic.data_curators": {"data_curator_name", "data_curator_type"},
    "deployment.administrative": {"status", "registry_authors", "tier"},
}


def faults(record: Any, schema: Any = FIELDS, path: str = "") -> list[str]:
    """What a validator of the schema would refuse."""
    if isinstance(schema, dict):
        if not isinstance(record, dict):
            return [f"{path}: no mapping"]
        bad = [f"{path}.{name}: missing" for name in REQUIRED.get(path, set()) - set(record)]
        bad += [f"{path}.{name}: unknown" for name in set(record) - set(schema)]
        inner = [(record[name], schema[name], f"{path}.{name}".strip(".")) for name in schema if name in record]
        return [*bad, *(fault for one in inner for fault in faults(*one))]
    if isinstance(schema, list):
        if not isinstance(record, list) or not record:
            return [f"{path}: no list"]
        return [fault for one in record for fault in faults(one, schema[0], path)]
    if isinstance(schema, set):
        return [] if record in schema else [f"{path}: {record!r}"]
    right = isinstance(record, schema) and not isinstance(record, bool)
    return [] if right else [f"{path}: {type(record).__name__}"]


@pytest.fixture(params=["plain", "peers", "bare"])
def card(tmp_path: Path, request: pytest.FixtureRequest) -> Card:
    if request.param == "peers":
        return replace(share(tmp_path, entities=20, survivors=18, colluders=1), statement=SITE)
    numbers = {"public_numbers": NUMBERS} if request.param == "plain" else {}
    return card_from_ledger(make(tmp_path, **numbers), statement=SITE)


def exported(card: Card) -> Any:
    return yaml.safe_load(to_yaml(registry_entry(card, authors=["A. Officer"])))


def test_the_export_fits_the_schema(card):
    assert faults(exported(card)) == []


def test_the_checks_of_this_test_catch_what_a_validator_would(card):
    for spoil in (
        lambda record: record.pop("url_slug"),
        lambda record: record.update(surprise=1),
        lambda record: record["deployment"].pop("administrative"),
        lambda record: record["deployment"]["basic"].pop("publication_date"),
        lambda record: record["deployment"]["basic"].update(publication_date=date(2026, 1, 1)),
        lambda record: record["deployment"]["basic"].update(data_curators=[]),
        lambda record: record["deployment"]["basic"]["data_curators"][0].pop("data_curator_type"),
        lambda record: record["deployment"]["basic"].update(data_product_type="surprise"),
        lambda record: record["deployment"]["privacy_loss"]["privacy_parameters"].update(epsilon="1"),
        lambda record: record["deployment"]["administrative"].update(tier=0),
    ):
        record = exported(card)
        spoil(record)
        assert len(faults(record)) == 1


def test_what_is_exported_is_what_the_card_says(card):
    told = exported(card)["deployment"]
    assert told["basic"]["data_curators"] == [{"data_curator_name": "St. Anna", "data_curator_type": "Nonprofit"}]
    assert told["basic"]["data_product_sector"] == "Healthcare"
    assert date.fromisoformat(told["basic"]["publication_date"]).isoformat() == card.at[:10]
    loss = told["privacy_loss"]
    assert loss["privacy_parameters"]["epsilon"] == card.figures[0].epsilon
    assert loss["privacy_parameters"].get("delta", 0) == card.figures[0].delta
    assert loss["privacy_parameters"].get("rho") == card.rho
    assert loss.get("number_of_privacy_units") == (card.public_numbers or {}).get("n_users")
    assert told["deployment_model"]["trust_assumptions"] == card.trust
    assert told["deployment_model"]["model_name"] == ("Central" if card.sharing == "plain" else "Federated")
    assert "not stated" in told["implementation"]["justification"]
    assert told["administrative"] == {"status": "Draft", "registry_authors": ["A. Officer"], "tier": 2}


def test_the_variant_follows_delta(tmp_path):
    pure = card_from_ledger(make(tmp_path), statement=SITE)
    assert exported(pure)["deployment"]["dp_variant"]["variant_name"] == "Pure DP"
    (tmp_path / "2").mkdir()
    gauss = replace(share(tmp_path / "2"), statement=SITE)
    assert exported(gauss)["deployment"]["dp_variant"]["variant_name"] == "Approximate DP"


def test_a_full_card_is_of_the_third_tier(tmp_path):
    site = SITE.with_(why_epsilon="enough", tuning="on open data")
    told = exported(card_from_ledger(make(tmp_path), statement=site))
    assert told["deployment"]["administrative"]["tier"] == 3


def test_a_sector_the_registry_does_not_know_is_told_in_words(tmp_path):
    told = exported(card_from_ledger(make(tmp_path), statement=SITE.with_(sector="Retail")))["deployment"]
    assert "data_product_sector" not in told["basic"]
    assert "Sector: Retail." in told["implementation"]["additional_information"]


@pytest.mark.parametrize("name", ["curator", "curator_type", "use", "region"])
def test_what_the_registry_requires_is_not_invented(tmp_path, name):
    with refused(DataError, name, found=name):
        registry_entry(card_from_ledger(make(tmp_path), statement=SITE.with_(**{name: ""})), authors=["A"])


def test_the_advice_names_options(tmp_path):
    """First reader A12: the advice was Python, curator_type='Government'."""
    with pytest.raises(DataError) as caught:
        registry_entry(card_from_ledger(make(tmp_path)), authors=["A"])
    assert "--curator-type Government|Industry|Nonprofit" in str(caught.value.fix)


def test_many_releases_state_their_total(tmp_path):
    """First reader B7: ε = 1 stood under "Many releases", whose total was 2."""
    card = card_from_ledger(secure(tmp_path, GAUSS, GAUSS), statement=SITE)
    told = exported(card)["deployment"]
    assert faults(exported(card)) == []
    assert told["deployment_model"]["release_type"] == "Many releases"
    assert told["privacy_loss"]["privacy_parameters"] == {"epsilon": 2, "delta": pytest.approx(2e-6)}
    assert "this release: ε = 1" in told["privacy_loss"]["privacy_parameters_details"]


@pytest.mark.parametrize("authors", [[], [""], ["A", " "]])
def test_an_entry_has_an_author(tmp_path, authors):
    with refused(DataError, "author"):
        registry_entry(card_from_ledger(make(tmp_path), statement=SITE), authors=authors)


def test_what_is_not_private_is_not_registered(tmp_path):
    with refused(NotForRealUse, "card"):
        registry_entry(card_from_ledger(make(tmp_path, simulation=True), statement=SITE), authors=["A"])


def test_no_text_is_folded(card):
    """The registry's own check refuses folded texts; ours are all in double quotes."""
    text = to_yaml(registry_entry(card, authors=["A"]))
    styles = {token.style for token in yaml.scan(text) if isinstance(token, yaml.ScalarToken)}
    assert styles <= {None, '"'}
    assert re.fullmatch(r"[a-z0-9-]+", exported(card)["url_slug"])


@given(text=st.text(), number=st.floats(allow_nan=False, allow_infinity=False), whole=st.integers(-(10**20), 10**20))
def test_yaml_is_read_back(text, number, whole):
    text = text.encode("utf-8", "ignore").decode()
    record = {"a": text, "b": {"c": [number, whole], "d": [{"e": text, "f": number}, {"e": ""}]}}
    found = yaml.safe_load(to_yaml(record))
    assert found == record
    assert type(found["b"]["c"][0]) is float
    assert math.copysign(1, found["b"]["c"][0]) == math.copysign(1, number)


def test_two_operators_are_actors_of_whom_one_must_be_honest(tmp_path):
    card = replace(operated(tmp_path), statement=SITE)
    model = registry_entry(card, authors=["A. Officer"])["deployment"]["deployment_model"]
    assert model["model_name"] == "Federated"
    assert "two operators, who add up shares" in model["actors"]
    assert "the server" not in model["actors"]
    assert "If both work together" in model["trust_assumptions"]
