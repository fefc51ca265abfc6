"""The OpenAPI document of the service."""

from __future__ import annotations

from typing import Any, Final

from twofold import __version__
from twofold.federation import wire
from twofold.federation.mailbox import StepId

__all__ = ["openapi"]

_ERRORS: Final = {
    400: "the body is not what was signed",
    401: "not signed by a member, sent before, or the clocks differ",
    403: "not for this member",
    404: "no such federation, step, document or entity",
    408: "the body came too slowly",
    409: "another message of this entity is here",
    410: "the step is closed",
    411: "no Content-Length",
    413: "larger than any message of this step",
    415: "packed, or of another type",
    422: "not a valid message of this entity, plan and step",
    429: "too many requests",
    503: "busy",
    507: "the message could not be stored",
}
_READ: Final = (401, 404, 429)
_SENT: Final = (400, 401, 404, 408, 409, 410, 411, 413, 415, 422, 429, 503, 507)


def openapi() -> dict[str, Any]:
    """Describe all requests of a service.

    Examples
    --------
    >>> openapi()["paths"]["/v1/health"]["get"]["responses"]["200"]["description"]
    'it answers'
    """
    plan = f"{wire.ROOT}/federations/{{plan}}"
    step = f"{plan}/steps/{{step}}"
    return {
        "openapi": "3.1.0",
        "info": {"title": "twofold", "version": __version__, "description": "A federation over HTTPS."},
        "paths": {
            f"{wire.ROOT}/health": {"get": _get("whether the service answers", {200: "it answers"}, signed=False)},
            f"{wire.ROOT}/metrics": {
                "get": _get("counters", {200: "Prometheus text", 401: "without the password"}, signed=False)
            },
            f"{wire.ROOT}/openapi.json": {"get": _get("this document", {200: "this document"}, signed=False)},
            plan: {"get": _get("how far the federation has come", {200: "its progress"}, parameters=("plan",))},
            f"{plan}/documents/{{kind}}": {
                "get": _get(
                    "a document of the plan",
                    {200: "its bytes", 304: "unchanged"},
                    parameters=("plan", "kind"),
                )
            },
            f"{step}/messages/{{entity}}": {
                "get": _get(
                    "which message of an entity is here",
                    {200: "its receipt, or null"},
                    parameters=("plan", "step", "entity"),
                ),
                "put": _put("an entity's message", ("plan", "step", "entity")),
            },
            f"{step}/parts/{{receipt}}": {
                "put": _put("a message of one operator to the other", ("plan", "step", "receipt"), more=(403,))
            },
            f"{step}/published": {
                "get": _get(
                    "what the server published",
                    {200: "its bytes", 202: "not yet; ask again after Retry-After", 304: "unchanged"},
                    parameters=("plan", "step"),
                )
            },
            f"{step}/close": {
                "post": _get(
                    "stop waiting; for the operator",
                    {202: "at the next look", 403: _ERRORS[403]},
                    parameters=("plan", "step"),
                )
            },
        },
        "components": {"schemas": {"Error": _error()}},
    }


def _get(
    summary: str, answers: dict[int, str], *, parameters: tuple[str, ...] = (), signed: bool = True
) -> dict[str, Any]:
    errors = _READ if signed else (429,)
    every = dict(answers) | {status: _ERRORS[status] for status in errors}
    return {
        "summary": summary,
        "parameters": [_parameter(name) for name in parameters] + (_signature() if signed else []),
        "responses": {str(status): _answer(status, text) for status, text in sorted(every.items())},
    }


def _put(summary: str, parameters: tuple[str, ...], *, more: tuple[int, ...] = ()) -> dict[str, Any]:
    answers = {200: "these bytes were here", 201: "taken, and on the disk"}
    every = answers | {status: _ERRORS[status] for status in (*_SENT, *more)}
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {
        "summary": summary,
        "parameters": [_parameter(name) for name in parameters] + _signature(),
        "requestBody": {"required": True, "content": {wire.MESSAGE: binary}},
        "responses": {str(status): _answer(status, text) for status, text in sorted(every.items())},
    }


def _answer(status: int, text: str) -> dict[str, Any]:
    if status < 400:
        return {"description": text}
    schema = {"schema": {"$ref": "#/components/schemas/Error"}}
    return {"description": text, "content": {"application/json": schema}}


def _parameter(name: str) -> dict[str, Any]:
    schemas: dict[str, dict[str, Any]] = {
        "plan": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "receipt": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "entity": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"},
        "kind": {"type": "string", "enum": list(wire.DOCUMENTS)},
        "step": {"type": "string", "enum": [one.value for one in StepId]},
    }
    return {"name": name, "in": "path", "required": True, "schema": schemas[name]}


def _signature() -> list[dict[str, Any]]:
    return [{"name": name, "in": "header", "required": True, "schema": {"type": "string"}} for name in wire.HEADERS]


def _error() -> dict[str, Any]:
    text = {"type": ["string", "null"]}
    names = ("error", "summary", "found", "expected", "fix", "parameter")
    return {"type": "object", "properties": dict.fromkeys(names, text), "required": ["error", "summary"]}
