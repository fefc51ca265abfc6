"""The OpenAPI document of a served model."""

from __future__ import annotations

from typing import Any, Final

from twofold import __version__

__all__ = ["openapi"]

_ERRORS: Final = {
    400: "not JSON",
    401: "no token, or another one",
    403: "a page of another site",
    404: "no such user, item or path",
    408: "the body came too slowly",
    411: "no Content-Length",
    413: "the body is too long",
    415: "packed, or of another type",
    421: "another name than this machine's, where there is no token",
    422: "a field that is unknown, of the wrong type or too large; items that the catalog does not have",
    503: "busy; ask again after Retry-After",
}
_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "number"}
_FLAG: Final = {"type": "boolean", "default": False}
_ID: Final = {"type": ["string", "integer"]}
_BASKET: Final = {"$ref": "#/components/schemas/Basket"}
_ITEMS: Final = {"$ref": "#/components/schemas/Items"}


def openapi(*, token: bool = False) -> dict[str, Any]:
    """Describe all requests.

    Parameters
    ----------
    token : bool
        Whether requests have to show one.

    Examples
    --------
    >>> sorted(openapi()["paths"])[:4]
    ['/health', '/items/{item}/similar', '/metrics', '/openapi.json']
    """
    people = {
        "user": _ID,
        "users": {"type": "array", "items": _ID, "maxItems": 1_000},
        "basket": _BASKET,
        "baskets": {"type": "array", "items": _BASKET, "maxItems": 1_000},
    }
    more = {"n": _count(10), "seen": _FLAG, "why": _FLAG, "only": {"type": "array", "items": _ID}}
    about = {"user": _ID, "basket": _BASKET, "item": _ID, "n": _count(5)}
    lists = {"oneOf": [_answer(recommendations=_ITEMS), _answer(lists={"type": "array", "items": _ITEMS})]}
    told = {"$ref": "#/components/schemas/Why"}
    n, user, item = _query("n", _count(10)), _query("user", _TEXT, True), _query("item", _TEXT, True)
    paths: dict[str, dict[str, Any]] = {
        "/recommendations/{user}": {
            "get": _asks(
                "items for a known user",
                _answer(recommendations=_ITEMS),
                (404, 422),
                [_path("user"), n, _query("seen", _FLAG), _query("why", _FLAG)],
            )
        },
        "/recommendations": {"post": _sends("items for one or several users or baskets", lists, people | more)},
        "/items/{item}/similar": {
            "get": _asks("items most like one", _answer(item=_ID, similar=_ITEMS), (404, 422), [_path("item"), n])
        },
        "/why": {
            "get": _asks("what led to an item", told, (404, 422), [user, item, _query("n", _count(5))]),
            "post": _sends("what led to an item, with nobody's id in the address", told, about),
        },
        "/health": {"get": _asks("whether it answers, and with which model", _health(), ()) | {"security": []}},
        "/metrics": {"get": _asks("counters in the text format of Prometheus", None, ())},
        "/openapi.json": {"get": _asks("this document", {"type": "object"}, ())},
    }
    for one in paths.values():
        for each in one.values():
            for status in (401,) if token and "security" not in each else () if token else (421,):
                each["responses"][str(status)] = _refusal(status)
    bearer = {"type": "http", "scheme": "bearer"}
    return {
        "openapi": "3.1.0",
        "info": {"title": "twofold serve", "version": __version__, "description": "Recommendations of one model."},
        "paths": paths,
        "components": {"schemas": _schemas(), "securitySchemes": {"token": bearer}},
        "security": [{"token": []}] if token else [],
    }


def _schemas() -> dict[str, Any]:
    named = {"item": _ID, "title": _TEXT}
    reason = _object(named | {"value": _NUMBER, "contribution": _NUMBER}, ("item", "value", "contribution"))
    because = {"reasons": {"type": "array", "items": reason}, "rest": _NUMBER}
    names = ("error", "summary", "found", "expected", "fix", "parameter")
    texts = {name: {"type": ["string", "null"]} for name in names}
    whole = {"generation": {"type": "integer"}} | named | {"score": _NUMBER} | because
    return {
        "Items": {"type": "array", "items": _object(named | {"score": _NUMBER} | because, ("item", "score"))},
        "Why": _object(whole, ("generation", "item", "score", "reasons", "rest")),
        "Basket": {
            "description": "what a person had: items and numbers; for counts, a list of items will do",
            "oneOf": [{"type": "object", "additionalProperties": _NUMBER}, {"type": "array", "items": _ID}],
        },
        "Error": _object(texts, ("error", "summary")),
    }


def _asks(
    summary: str, schema: dict[str, Any] | None, errors: tuple[int, ...], parameters: list[Any] | None = None
) -> dict[str, Any]:
    good = {"text/plain": {"schema": _TEXT}} if schema is None else {"application/json": {"schema": schema}}
    answers = {"200": {"description": "the answer", "content": good}}
    answers |= {str(status): _refusal(status) for status in errors}
    return {"summary": summary, "parameters": parameters or [], "responses": answers}


def _sends(summary: str, schema: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    asked = _asks(summary, schema, (400, 403, 404, 408, 411, 413, 415, 422, 503))
    body = {"schema": {"type": "object", "properties": fields, "additionalProperties": False}}
    return asked | {"requestBody": {"required": True, "content": {"application/json": body}}}


def _refusal(status: int) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {"description": _ERRORS[status], "content": content}


def _answer(**fields: Any) -> dict[str, Any]:
    return _object({"generation": {"type": "integer"}, "title": _TEXT, **fields}, ("generation", *fields))


def _health() -> dict[str, Any]:
    words = {"status": {"enum": ["ok", "stale"]}, "version": _TEXT, "loaded_at": _TEXT}
    return _object(words | {"generation": {"type": "integer"}, "problem": {"type": ["object", "null"]}}, ("status",))


def _object(fields: dict[str, Any], required: tuple[str, ...]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(required)}


def _count(usual: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": 1_000, "default": usual}


def _query(name: str, schema: dict[str, Any], required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": required, "schema": schema}


def _path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": _TEXT}
