"""What one loaded model answers: ids from text, titles of items, and lists as JSON whose parts are made once.

A list of ten items is ten lookups and one join: the text of an item, with its id and its title, never changes while a
model is served. Whole answers for known users are kept, the least used ones are forgotten first, and all of them with
the model they came from.
"""

from __future__ import annotations

import json
import math
import re
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from datetime import date
from typing import Any, Final
from uuid import UUID

import polars as pl

from twofold.data.catalog import Catalog, Identifiers, type_word
from twofold.entity.asked import closest
from twofold.entity.explain import Explanation
from twofold.entity.model import Model, Recommendation
from twofold.errors import BadValue, CatalogError, PlanMismatch, UnknownUser

__all__ = ["LARGE", "Answers", "Cache", "id_from", "titles_of"]

#: Above this many items, lists are made on threads; below, handing one over costs a good part of making it.
LARGE: Final = 20_000
#: Items that an unknown id is compared with; more would keep the others waiting.
_COMPARED: Final = 2_000
_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
#: Characters of a title in an answer.
_LONGEST: Final = 200
#: Bytes of all answers that are kept, and of the largest one among them.
_KEPT: Final = 32 << 20
_LARGEST: Final = 16 << 10


class Cache:
    """Answers by question; those that were not asked for the longest are forgotten.

    Parameters
    ----------
    most : int
        Bytes of all answers together.

    Examples
    --------
    >>> cache = Cache(most=8)
    >>> cache.put("a", b"12345"), cache.put("b", b"678"), cache.get("a"), cache.put("c", b"90")
    (None, None, b'12345', None)
    >>> cache.get("b"), cache.get("a")
    (None, b'12345')
    """

    def __init__(self, most: int = _KEPT) -> None:
        self._most, self._size = most, 0
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self.found = self.missed = 0

    def get(self, question: Hashable) -> bytes | None:
        """Give an answer if it is here."""
        answer = self._kept.get(question)
        if answer is None:
            self.missed += 1
            return None
        self.found += 1
        self._kept.move_to_end(question)
        return answer

    def put(self, question: Hashable, answer: bytes) -> None:
        """Keep an answer, unless it is large."""
        if len(answer) > min(self._most, _LARGEST):
            return
        self._size += len(answer) - len(self._kept.pop(question, b""))
        self._kept[question] = answer
        while self._size > self._most:
            self._size -= len(self._kept.popitem(last=False)[1])


def id_from(given: object, ids: Identifiers) -> Any:
    """Turn an id of a path or of JSON into the type of the data; what does not fit stays as it is and is not found.

    Examples
    --------
    >>> id_from("17", Identifiers([17, 4])), id_from("17", Identifiers(["17"])), id_from("017", Identifiers([17]))
    (17, '17', '017')
    """
    if not isinstance(given, str) or ids.kind == "text":
        return given
    try:
        match ids.kind.lower():
            case "integer":
                return int(given) if _WHOLE.fullmatch(given) else given
            case "date":
                return date.fromisoformat(given)
            case "uuid":
                return UUID(given)
            case "binary":
                return bytes.fromhex(given)
    except ValueError:
        pass
    return given


def titles_of(catalog: Catalog, model: Model) -> pl.Series | None:
    """Give the titles in a catalog, in the order of the model's items; None if it has no such column.

    Raises
    ------
    PlanMismatch
        The catalog is another one than the model's.

    Examples
    --------
    >>> from twofold import Catalog, fit_alone, read_ratings
    >>> catalog = Catalog(["a", "b"], pl.DataFrame({"title": ["Aspirin", "Bilirubin"]}))
    >>> table = pl.DataFrame({"user": [1, 2, 3], "item": ["a", "b", "a"], "value": [1, 2, 1]})
    >>> titles_of(catalog, fit_alone(read_ratings(table, catalog, feedback="counts"))).to_list()
    ['Aspirin', 'Bilirubin']
    """
    if catalog.hash != model.catalog.hash:
        raise PlanMismatch(
            "this item list is not the model's.",
            found=f"{len(catalog):,} items, hash {catalog.hash[:12]}",
            expected=f"{len(model.catalog):,} items, hash {model.catalog.hash[:12]}",
            fix="the file that the plan names",
            parameter="catalog",
        )
    return catalog.titles


class Answers:
    """One model and all that is made from it once.

    Parameters
    ----------
    model : Model
        What answers. Private.
    titles : polars.Series, optional
        One per item, in the order of the catalog.
    generation : int
        How many models were served so far, this one included; every answer says it.

    Privacy
    -------
    Answers name items of people: they are for those who may see the data.
    """

    def __init__(self, model: Model, *, titles: pl.Series | None = None, generation: int = 1) -> None:
        self.model, self.generation, self.cache = model, generation, Cache()
        self.users, self.items = model.history.user_ids, model.catalog.items
        self.large = len(self.items) > LARGE
        self._titles = titles
        self._parts: dict[Any, bytes] = {}
        self._head = b'{"generation":%d,' % generation
        self._warm()

    def _warm(self) -> None:
        """Compile, look up and fill in now what the first question would wait for."""
        first = self.items[0]
        basket = {first: self.model.bound}
        self.users.get(None)
        self.model.recommend(basket, 1)
        self.model.recommend({}, 1)
        self.model.explain(basket, first)
        self.model.similar_items(first, 1)
        if len(self.users):
            self.model.recommend(self.users[0], 1)

    def title(self, item: Any) -> str | None:
        """Give the title of an item, if the catalog has one."""
        if self._titles is None:
            return None
        found = self._titles[self.model.catalog.column(item)]
        return None if found is None else " ".join(str(found).split())[:_LONGEST] or None

    def item_named(self, text: str) -> str:
        """Turn an exact title into the id of its item, if only one item has it; anything else stays as it is."""
        if self._titles is None or self.items.get(id_from(text, self.items)) is not None:
            return text
        places = (self._titles == text).arg_true()
        return str(_plain(self.items[places[0]])) if len(places) == 1 else text

    def user(self, given: object) -> Any:
        """Find a user; raises UnknownUser without the id."""
        known = id_from(given, self.users)
        if self.users.get(known) is None:
            raise UnknownUser(
                "this model does not know that user.",
                found=f"an id of type {type_word(given)}",
                expected=f"a known id of type {self.users.kind}",
                fix='for a new person, POST /recommendations with {"basket": {"ITEM": VALUE}}',
                parameter="user",
            )
        return known

    def item(self, given: object) -> Any:
        """Find an item; raises CatalogError without the text that was given, with the closest ids of a short list."""
        known = id_from(given, self.items)
        if self.items.get(known) is None:
            near = closest(given, self.items) if len(self.items) <= _COMPARED else []
            raise CatalogError(
                "the catalog does not have this item.",
                found=f"an id of type {type_word(given)}",
                expected=f"one of {len(self.items):,} ids of type {self.items.kind}",
                fix=f"did you mean {', '.join(near)}?" if near else "spell it as the item list does",
                parameter="item",
            )
        return known

    def basket(self, given: object) -> dict[Any, float]:
        """Read what a person had: an object of items and numbers; for counts, also a list of items, one each.

        Raises
        ------
        BadValue, CatalogError
            Something that is no basket, or items that the catalog does not have; nothing of it is repeated.
        """
        if isinstance(given, list) and self.model.history.feedback == "counts":
            if not all(isinstance(one, str | int) and not isinstance(one, bool) for one in given):
                raise _no_basket("a list with something that is not an id")
            given = dict.fromkeys(given, 1)
        if not isinstance(given, Mapping):
            raise _no_basket(f"a {type(given).__name__}")
        if not set(map(type, given.values())) <= {int, float}:  # a truth value is no number here
            raise _no_basket("a value that is not a number")
        return {id_from(item, self.items): value for item, value in given.items()}

    def list_of(
        self,
        who: Any,
        n: int,
        *,
        seen: bool = False,
        why: bool = False,
        only: Iterable[Any] | None = None,
    ) -> bytes:
        """Give the best items of a known user or a basket as a JSON list."""
        found = self.model.recommend(who, n, exclude_seen=not seen, items=only)
        if not why:
            return self._listed(found)
        told = (self.model.explain(who, one.item) for one in found)
        rows = [self._part(one.item) + _figure(one.score) + b"," + self._reasons(one) + b"}" for one in told]
        return b"[" + b",".join(rows) + b"]"

    def one(self, listed: bytes) -> bytes:
        """Wrap the list of one person."""
        return b'%s"recommendations":%s}' % (self._head, listed)

    def several(self, lists: Iterable[bytes]) -> bytes:
        """Wrap the lists of several people, in their order."""
        return b'%s"lists":[%s]}' % (self._head, b",".join(lists))

    def similar(self, item: Any, n: int) -> bytes:
        """Answer which items are most like one."""
        named = self._part(item)[1:].rpartition(b',"score":')[0]
        return b'%s%s,"similar":%s}' % (self._head, named, self._listed(self.model.similar_items(item, n)))

    def why(self, who: Any, item: Any, n: int) -> bytes:
        """Answer what led to an item."""
        told = self.model.explain(who, item, n)
        return b"%s%s%s,%s}" % (self._head, self._part(item)[1:], _figure(told.score), self._reasons(told))

    def _listed(self, found: Iterable[Recommendation]) -> bytes:
        parts = self._parts
        rows = [(parts.get(one.item) or self._part(one.item)) + _figure(one.score) + b"}" for one in found]
        return b"[" + b",".join(rows) + b"]"

    def _part(self, item: Any) -> bytes:
        """Everything of an item up to its score."""
        made = self._parts.get(item)
        if made is None:
            record: dict[str, Any] = {"item": _plain(item)}
            if (title := self.title(item)) is not None:
                record["title"] = title
            made = json.dumps(record, separators=(",", ":")).encode()[:-1] + b',"score":'
            self._parts[item] = made
        return made

    def _reasons(self, told: Explanation) -> bytes:
        rows = []
        for reason in told.reasons:
            named = self._part(reason.item).rpartition(b',"score":')[0]
            value, moved = _figure(reason.value), _figure(reason.contribution)
            rows.append(b'%s,"value":%s,"contribution":%s}' % (named, value, moved))
        return b'"reasons":[%s],"rest":%s' % (b",".join(rows), _figure(told.rest))


def _figure(number: float) -> bytes:
    """Scores are float32, which nine digits tell exactly; JSON has no word for what is not finite."""
    return b"%.9g" % number if math.isfinite(number) else b"null"


def _plain(item: Any) -> int | str:
    """An id as JSON has it: whole numbers as they are, bytes as hexadecimal digits, all else as text."""
    if isinstance(item, int | str) and not isinstance(item, bool):
        return item
    return item.hex() if isinstance(item, bytes) else str(item)


def _no_basket(found: str) -> BadValue:
    return BadValue(
        "not a basket.", found=found, expected='{"ITEM": NUMBER, ...}, or for counts ["ITEM", ...]', parameter="basket"
    )
