"""A card as an entry for the registry of differential-privacy deployments of OpenDP and NIST.

Fields follow ``schemas/deployments-schema.yaml`` of opendp/deployments-registry-data, as of September 2026. The
registry asks for things that no ledger knows; they come from the site's statement and are refused if missing, never
invented.

YAML is written by hand, because the package does not depend on a YAML library and the entry needs little of it: nested
mappings, lists, numbers, and texts in double quotes, whose escapes every reader of YAML has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from twofold.errors import DataError, NotForRealUse, Set
from twofold.privacy.budget import exact
from twofold.privacy.card import Card, rounded_up
from twofold.privacy.site_words import CURATOR_TYPES

__all__ = ["SECTORS", "registry_entry", "to_yaml"]

#: The registry's words; another sector is told in the text of the entry.
SECTORS: Final = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
_VARIANTS: Final = {"pure": "Pure DP", "approximate": "Approximate DP"}
#: What the registry requires and only the site knows.
_NEEDED: Final = {"curator": "NAME", "curator_type": "|".join(CURATOR_TYPES), "use": "TEXT", "region": "TEXT"}


def registry_entry(card: Card, *, authors: Sequence[str]) -> dict[str, Any]:
    """Make the registry's record of a release.

    Parameters
    ----------
    card : Card
        With the site's statement: curator and its type, use and region are required.
    authors : sequence of str
        Who fills in the entry.

    Raises
    ------
    DataError
        Something that the registry requires was not stated.
    NotForRealUse
        The release is not private: a registry of guarantees has no place for it.
    """
    _check(card, authors)
    slug = re.sub(r"[^a-z0-9]+", "-", f"{card.dataset} {card.statement.curator} {card.at[:4]}".lower()).strip("-")
    return {
        "url_slug": slug,
        "deployment": {
            "basic": _basic(card),
            "dp_variant": _variant(card),
            "privacy_loss": _loss(card),
            "deployment_model": _model(card),
            "implementation": _implementation(card),
            "administrative": {
                "status": "Draft",
                "registry_authors": [_line(author) for author in authors],
                "tier": 3 if card.statement.why_epsilon and card.statement.tuning else 2,
            },
        },
    }


def _check(card: Card, authors: Sequence[str]) -> None:
    if not card.private:
        raise NotForRealUse(
            "this release is not private; nothing was written.", expected="the card of a real release", parameter="card"
        )
    missing = [name for name in _NEEDED if not getattr(card.statement, name)]
    if missing:
        raise DataError(
            "the registry requires what the card does not state; nothing was written.",
            found=f"not stated: {', '.join(missing)}",
            fix=f"make the card again with {' '.join(_option(name) for name in missing)}",
            parameter=missing[0],
        )
    if not authors or not all(_line(author) for author in authors):
        raise DataError(
            "the registry requires the name of the entry's author; nothing was written.",
            fix=Set("author", "NAME"),
            parameter="author",
        )


def _option(name: str) -> str:
    """Give the option of `twofold card show` for a word of the site."""
    return f"--{name.replace('_', '-')} {_NEEDED[name]}"


def _basic(card: Card) -> dict[str, Any]:
    site = card.statement
    sector = {name.lower(): name for name in SECTORS}.get(site.sector.lower())
    return {
        "name": f"{_line(card.dataset)}: shared recommendations",
        "data_curators": [{"data_curator_name": site.curator, "data_curator_type": site.curator_type}],
        "description": f"One message of one entity in a federated recommender: {_line(card.what_left)}.",
        "intended_use": site.use,
        "data_product_type": "Summary statistics",
        "data_product_region": site.region,
        **({"data_product_sector": sector} if sector else {}),
        "publication_date": card.at[:10],
    }


def _variant(card: Card) -> dict[str, Any]:
    return {
        "variant_name": _VARIANTS[card.variant.partition(" ")[0]],
        "data_domain": (
            f"All tables of one value per {card.unit['holder']} and item over a public list of items. "
            f"{_capital(card.preprocessing)}."
        ),
        "unprotected_quantities": f"{_capital('; '.join(card.unprotected))}.",
    }


def _loss(card: Card) -> dict[str, Any]:
    total = card.together if card.releases > 1 else None
    many, stated = total is not None, total or card.figures[0]
    parameters = {"epsilon": stated.epsilon}
    if stated.delta:
        parameters["delta"] = stated.delta
    if card.rho is not None and not many:  # ρ is known of this release only
        parameters["rho"] = card.rho
    people = (card.public_numbers or {}).get("n_users")
    number = {"number_of_privacy_units": people} if type(people) is int else {}
    others = "; ".join(f"{one.meaning}: {one.cost}" for one in card.figures)
    weak = "".join(f" Weak: {text}" for text in card.weak)
    noise = "" if card.rho is None else f" The noise is ρ = {rounded_up(exact(card.rho))} zero-concentrated DP."
    scope = f"The parameters are those of all {card.releases:,} releases together. " if many else ""
    promised = " The number of units is the promised one, never counted." if number else ""
    return {
        "privacy_unit": f"{_capital(card.unit['holder'])}-level",
        "privacy_unit_details": f"{_capital(card.adjacency)}: {card.protects}.{promised}",
        **number,
        "privacy_parameters": parameters,
        "privacy_parameters_details": f"{scope}{_capital(others)}.{noise}{weak}",
    }


def _model(card: Card) -> dict[str, Any]:
    many = card.releases > 1
    return {
        "model_name": "Central" if card.sharing == "plain" else "Federated",
        "model_name_details": f"{_capital(card.model)}. {card.noise_by}",
        "trust_assumptions": card.trust,
        "actors": (
            f"The entity, which holds the records and is trusted with them; {_combines(card)}; the "
            f"other participants; anyone who ever sees the message. Protected against: {card.against}."
        ),
        "release_type": "Many releases" if many else "One release",
        "release_type_details": (
            f"{_capital(card.release_type)}. Spent {card.spent} of {card.ceiling}. The budget renews: {card.renews}."
        ),
        "data_source_type": "Static",
        "data_source_type_details": f"{_capital(card.data_source)}.",
        "access_type": "Non-interactive",
        "access_type_details": "Nobody can query the records. One message is drawn, stored and sent.",
    }


def _combines(card: Card) -> str:
    if card.sharing == "operators":
        return "two operators, who add up shares of the messages and of whom one must be honest"
    return "the server, which combines messages"


def _implementation(card: Card) -> dict[str, Any]:
    site = card.statement
    tested = "not run here" if card.audit is None else card.audit.said(card.software)
    sector = f" Sector: {site.said('sector')}."
    return {
        "preprocessing_and_hyperparameter_tuning": (
            f"{_capital(card.preprocessing)}. Nothing was tuned on the data for this release. How the plan's numbers "
            f"were found, and whether that was paid for: {site.said('tuning')}."
        ),
        "mechanisms": (
            f"{' '.join(card.mechanisms)} Randomness: {card.randomness}. Noise is added to whole numbers, so no "
            f"floating-point trace remains. Timing: {card.timing}. Software: {card.software}."
        ),
        "composition": f"{_capital(card.composition)}.",
        "post_processing": f"{_capital(card.post_processing)}.",
        "justification": f"Why this epsilon: {site.said('why_epsilon')}. Decided by: {site.said('decided_by')}.",
        "additional_information": (
            f"Attack tests (twofold audit): {tested}. Impact assessment: {site.said('dpia')}. Protection officer: "
            f"{site.said('officer')}; advice: {site.said('advice')}.{sector} Record {card.record_hash} of the entity's "
            "ledger."
        ),
    }


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _line(text: str) -> str:
    return " ".join(text.split())


def to_yaml(record: Mapping[str, Any]) -> str:
    r"""Write a record as YAML.

    Parameters
    ----------
    record : mapping
        Texts, whole and finite numbers, mappings with plain names, and lists of them.

    Examples
    --------
    >>> print(to_yaml({"name": "a \"b\": c", "of": [{"x": 1e-6, "y": 2}], "who": ["me"]}), end="")
    name: "a \"b\": c"
    of:
      - x: 1.0e-06
        y: 2
    who:
      - "me"
    """
    return "\n".join(_lines(record)) + "\n"


def _lines(record: Mapping[str, Any]) -> Iterator[str]:
    for name, value in record.items():
        assert re.fullmatch(r"[a-z_]+", name), name
        if isinstance(value, Mapping):
            yield f"{name}:"
            yield from (f"  {line}" for line in _lines(value))
        elif isinstance(value, list):
            yield f"{name}:"
            for one in value:
                inner = list(_lines(one)) if isinstance(one, Mapping) else [_scalar(one)]
                yield from (f"  {'- ' if first == 0 else '  '}{line}" for first, line in enumerate(inner))
        else:
            yield f"{name}: {_scalar(value)}"


def _scalar(value: object) -> str:
    if isinstance(value, str):
        return '"' + "".join(map(_escaped, value)) + '"'
    assert isinstance(value, int | float)
    assert not isinstance(value, bool)
    text = repr(value)
    # YAML 1.1 takes 1e-06 for a text: its numbers with an exponent need a point.
    return text.replace("e", ".0e") if "e" in text and "." not in text else text


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return f"\\{letter}"
    return letter if letter.isprintable() else f"\\U{ord(letter):08x}"
