"""One operation of the API: what it takes, what it answers, how it refuses; and the OpenAPI object of that.

Refusals are named by their codes; the answers of each status follow from the table of codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from blueprints.openapi.codes import status_of
from blueprints.openapi.shapes import ANY, COUNT, TEXT, Shape, listed

JSON: Final = "application/json"
HTML: Final = "text/html"
STREAM: Final = "text/event-stream"
EDGE_CODES: Final = ("bad_request", "bad_host", "edge_required", "body_too_large", "internal_error", "overloaded")
"""What any request may be refused with before, or instead of, its handler."""
UNCODED: Final = {408: "The request did not come in time", 414: "The request line is too long",
                  417: "An expectation that is not known", 431: "The headers are too large"}  # fmt: skip
"""Refusals of the edge that have no ``code`` (VIS-048)."""
NOBODY: Final = "nobody"
"""Stands among security schemes for "without any"."""
_LIMITS: Final = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
_EXTRA: Final[Mapping[str, Mapping[str, Shape]]] = {
    "insufficient_role": {"role": TEXT, "needs": TEXT},
    "stale_room": {"room": {"$ref": "#/components/schemas/Room"}},
    "credential_in_query": {"ok": {"const": False}},
}
"""Further members of a refusal, by code."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of the query, a header or the path."""

    name: str
    help: str
    shape: Shape = field(default_factory=lambda: TEXT)
    place: str = "query"
    required: bool = False

    def to_json(self) -> dict[str, Any]:
        """The parameter object."""
        return {
            "name": self.name,
            "in": self.place,
            "required": self.required or self.place == "path",
            "description": self.help,
            "schema": self.shape,
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """A body that is no refusal, by media type; none for an answer without a body."""

    help: str
    content: Mapping[str, Shape] = field(default_factory=dict)

    def to_json(self, headers: Mapping[str, Any]) -> dict[str, Any]:
        """The response object."""
        found: dict[str, Any] = {"description": self.help}
        if headers:
            found["headers"] = dict(headers)
        if self.content:
            found["content"] = {kind: {"schema": shape} for kind, shape in self.content.items()}
        return found


def json_answer(shape: Shape, help_text: str = "Done") -> Mapping[int, Answer]:
    """``200`` with a JSON object."""
    return {200: Answer(help_text, {JSON: shape})}


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path."""

    summary: str
    answers: Mapping[int, Answer]
    codes: Sequence[str] = ()
    """Codes of its refusals, besides ``EDGE_CODES``."""
    parameters: Sequence[Parameter] = ()
    body: Shape | None = None
    body_required: bool = True
    is_limited: bool = False
    """Counts against a budget of the address: ``X-RateLimit-*``, and ``rate_limited`` when it is used up."""
    plain_429: bool = False
    """Its ``429`` is no envelope but a page, or plain text for what is no navigation (VIS-079)."""
    security: Sequence[str] = ()
    """Names of security schemes, any of which does; none for what anyone may call."""
    tag: str = ""

    def all_codes(self) -> list[str]:
        """Codes of every refusal, each once."""
        limited = ("rate_limited",) if self.is_limited and not self.plain_429 else ()
        return list(dict.fromkeys([*self.codes, *limited, *EDGE_CODES]))

    def to_json(self, operation_id: str) -> dict[str, Any]:
        """The operation object."""
        found: dict[str, Any] = {"operationId": operation_id, "summary": self.summary, "tags": [self.tag]}
        if self.parameters:
            found["parameters"] = [parameter.to_json() for parameter in self.parameters]
        if self.body is not None:
            found["requestBody"] = {"required": self.body_required, "content": {JSON: {"schema": self.body}}}
        found["responses"] = self._responses()
        found["security"] = [{} if name == NOBODY else {name: []} for name in self.security]
        return found

    def _responses(self) -> dict[str, Any]:
        limits = {name: {"$ref": f"#/components/headers/{name}"} for name in _LIMITS} if self.is_limited else {}
        found = {str(status): answer.to_json(limits) for status, answer in self.answers.items()}
        by_status: dict[int, list[str]] = {}
        for code in self.all_codes():
            by_status.setdefault(status_of(code), []).append(code)
        for status, codes in by_status.items():
            found.setdefault(str(status), _refusal(status, codes, limits))
        if self.plain_429:
            found["429"] = Answer("The page budget is used up", {HTML: TEXT, "text/plain": TEXT}).to_json(limits)
        for status in UNCODED:
            found[str(status)] = {"$ref": f"#/components/responses/Uncoded{status}"}
        return dict(sorted(found.items()))


def refusal_shape(codes: Sequence[str]) -> Shape:
    """The envelope of errors with one of ``codes`` (VIS-036, ADM-017)."""
    optional: dict[str, Shape] = {"fields": listed(TEXT), "retryAfterSec": COUNT}
    for code in codes:
        optional |= _EXTRA.get(code, {})
    return {
        "type": "object",
        "required": ["error", "code"],
        "properties": {"error": {**TEXT, "minLength": 1}, "code": {"enum": list(codes)}, **optional},
    }


def uncoded_responses() -> dict[str, Any]:
    """Responses of the edge without a code, by component name."""
    shape = {"type": "object", "required": ["error"], "properties": {"error": TEXT}}
    return {f"Uncoded{status}": Answer(text, {JSON: shape, HTML: ANY}).to_json({}) for status, text in UNCODED.items()}


def _refusal(status: int, codes: Sequence[str], limits: Mapping[str, Any]) -> dict[str, Any]:
    headers = dict(limits)
    if status in (429, 503):
        headers["Retry-After"] = {"$ref": "#/components/headers/Retry-After"}
    return Answer(" · ".join(codes), {JSON: refusal_shape(codes), HTML: TEXT}).to_json(headers)
