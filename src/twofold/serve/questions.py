"""What may be asked, read from a query or from JSON: every field is checked before a model is touched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from twofold.errors import BadMessage, BadParameter
from twofold.serve.answers import Answers
from twofold.storage.container import parse_json

__all__ = ["MOST_BASKETS", "MOST_ITEMS", "MOST_REASONS", "MOST_TOGETHER", "Question", "from_json", "from_query"]

#: Items of one list, lists of one request, items of all its lists together, and of those that are explained.
MOST_ITEMS: Final = 1_000
MOST_BASKETS: Final = 1_000
MOST_TOGETHER: Final = 100_000
MOST_REASONS: Final = 1_000
_PEOPLE: Final = ("user", "users", "basket", "baskets")
_WORDS: Final = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, kw_only=True)
class Question:
    """One request for one or several people.

    Parameters
    ----------
    people : tuple
        Known users by their ids, and baskets as dicts.
    several : bool
        Whether a list of people was given, and a list of lists is due.
    n : int
        Items of each list.
    seen, why : bool
        Whether to include what a person has had, and to explain each item.
    only : tuple of ids, optional
        The only items to choose from.
    item : id, optional
        The item in question, where one is asked about.
    """

    people: tuple[Any, ...]
    several: bool = False
    n: int = 10
    seen: bool = False
    why: bool = False
    only: tuple[Any, ...] | None = None
    item: Any = None


def from_query(pairs: Iterable[tuple[str, str]], names: Iterable[str]) -> dict[str, Any]:
    """Read the part of an address after the question mark: known names, each once.

    Examples
    --------
    >>> from_query([("n", "5"), ("why", "true")], ("n", "seen", "why"))
    {'n': 5, 'why': True}
    >>> from_query([("n", "0")], ("n",))
    Traceback (most recent call last):
    twofold.errors.BadParameter: n is not a number of items...
    """
    allowed, found = tuple(names), dict[str, Any]()
    for name, text in pairs:
        if name not in allowed or name in found:
            raise _unknown(allowed)
        if name == "n":
            found[name] = _number(int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else text)
        elif name in ("seen", "why"):
            found[name] = _flag(name, _WORDS.get(text, text))
        else:
            found[name] = text
    return found


def from_json(data: bytes, answers: Answers, *, about_item: bool = False) -> Question:
    """Read the body of a request.

    Parameters
    ----------
    data : bytes
        A JSON object with one of user, users, basket and baskets; and n, seen, why and only.
    answers : Answers
        Knows the ids.
    about_item : bool
        Whether the question is about one item, for one person: item and n instead of the other fields.

    Raises
    ------
    BadMessage
        Not JSON.
    BadParameter, BadValue, CatalogError, UnknownUser
        Fields that are unknown, missing, of the wrong type or too large. None is repeated.
    """
    try:
        record = parse_json(data.decode())
    except UnicodeDecodeError:
        raise _not_json("bytes that are not UTF-8") from None
    except BadMessage as error:
        raise _not_json(error.found) from None
    who = _PEOPLE[::2] if about_item else _PEOPLE
    given = [name for name in who if name in record]
    rest = ("item", "n") if about_item else ("n", "seen", "why", "only")
    if not set(record) <= {*who, *rest}:
        raise _unknown((*who, *rest))
    if len(given) != 1:
        raise BadParameter("whom is it for?", expected=f"one of {', '.join(who)}", parameter="user")
    people, several = _people(given[0], record[given[0]], answers)
    settings = {name: _flag(name, record[name]) for name in ("seen", "why") if name in record}
    n = _number(record.get("n", 5 if about_item else 10))
    together = n * len(people)
    most = MOST_REASONS if settings.get("why") else MOST_TOGETHER
    if together > most:
        raise BadParameter(
            "that is too much for one request.",
            found=f"{together:,} items in all lists",
            expected=f"at most {most:,}",
            fix="fewer people, or a smaller n",
            parameter="n",
        )
    item = answers.item(record.get("item")) if about_item else None
    return Question(people=people, several=several, n=n, only=_only(record, answers), item=item, **settings)


def _people(name: str, given: Any, answers: Answers) -> tuple[tuple[Any, ...], bool]:
    several = name.endswith("s")
    if several and not isinstance(given, list):
        raise BadParameter("{parameter} is not a list.", found=f"a {type(given).__name__}", parameter=name)
    each = given if several else [given]
    if len(each) > MOST_BASKETS:
        raise BadParameter(
            "too many people in one request.",
            found=f"{len(each):,}",
            expected=f"at most {MOST_BASKETS:,}",
            fix="several requests",
            parameter=name,
        )
    read = answers.user if name.startswith("user") else answers.basket
    return tuple(read(one) for one in each), several


def _only(record: dict[str, Any], answers: Answers) -> tuple[Any, ...] | None:
    given = record.get("only")
    if given is None:
        return None
    if not isinstance(given, list):
        raise BadParameter(
            "{parameter} is not a list of item ids.", found=f"a {type(given).__name__}", parameter="only"
        )
    return tuple(answers.item(one) for one in given)


def _number(given: object) -> int:
    if type(given) is not int or not 1 <= given <= MOST_ITEMS:
        raise BadParameter(
            "{parameter} is not a number of items.", expected=f"a whole number from 1 to {MOST_ITEMS:,}", parameter="n"
        )
    return given


def _flag(name: str, given: object) -> bool:
    if not isinstance(given, bool):
        raise BadParameter("{parameter} is neither true nor false.", expected="true or false", parameter=name)
    return given


def _unknown(names: Iterable[str]) -> BadParameter:
    """An unknown name is not repeated: it may be an id that went to the wrong place."""
    known = ", ".join(names) or "nothing"
    return BadParameter("the request has an unknown or repeated field.", expected=known, parameter="fields")


def _not_json(found: str | None) -> BadMessage:
    return BadMessage("the body is not valid JSON.", found=found, expected="one object", parameter="body")
