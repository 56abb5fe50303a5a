"""Every refusal that leaves this server: one exception tree, one code table.

Raise the narrowest class; ``blueprints/errors.py`` and the edge protocol alone turn it into an answer
``{"error": sentence, "code": code}`` (VIS-036). Status per code: table "All error codes" of docs/spec/00.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class QmError(Exception):
    """A refusal with status, code and a sentence that a stranger may read."""

    status = 500
    code = "internal_error"
    sentence = "The server failed to answer this request."
    page_sentence = ""
    """What a page says instead of ``sentence``."""

    def __init__(
        self,
        sentence: str | None = None,
        *,
        code: str | None = None,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        """``members`` are further members of the JSON answer, for example ``fields=["rate"]``."""
        super().__init__(sentence or self.sentence)
        self.sentence = sentence or self.sentence
        self.code = code or self.code
        self.status = status or self.status
        self.headers: dict[str, str] = dict(headers or {})
        self.members: dict[str, Any] = members

    def body(self) -> dict[str, Any]:
        """The JSON object of the answer."""
        return {"error": self.sentence, "code": self.code, **self.members}


class BadRequest(QmError):
    """400: the request cannot be understood; always raised with its own ``code``."""

    status = 400
    code = "bad_request"
    sentence = "This request cannot be read."


class BadJson(BadRequest):
    """400 ``bad_json``: the body is no JSON object."""

    code = "bad_json"
    sentence = "The body has to be a JSON object."


class UnknownField(BadRequest):
    """400 ``unknown_field``: names outside the documented list."""

    code = "unknown_field"

    def __init__(self, *fields: str, of: str = "this request") -> None:
        super().__init__(f'"{fields[0]}" is not a field of {of}', fields=list(fields))


class InvalidField(BadRequest):
    """400 ``invalid_<field>``: wrong type, form or bounds."""

    def __init__(self, field: str, sentence: str, *, code: str | None = None, fields: list[str] | None = None) -> None:
        super().__init__(sentence, code=code or f"invalid_{snake(field)}", fields=fields or [field])


class Unauthorized(QmError):
    """401: no credential, or one that is not good."""

    status = 401
    code = "unauthorized"
    sentence = "A valid key is required."


class Forbidden(QmError):
    """403; always raised with its own ``code``."""

    status = 403
    code = "insufficient_role"
    sentence = "This credential may not do that."


class NotFound(QmError):
    """404 ``not_found``: no such path."""

    status = 404
    code = "not_found"
    sentence = "There is nothing at this address."


class BareNotFound(NotFound):
    """404 without a body, so that nothing tells that there is something to find (CFG-170)."""


class NoRoom(NotFound):
    """404 ``no_room``."""

    code = "no_room"
    sentence = "No such room"


class NoTicket(NotFound):
    """404 ``no_ticket``: a number that was never issued."""

    code = "no_ticket"
    sentence = "No such ticket"


class MethodNotAllowed(QmError):
    """405; ``headers`` carry ``Allow``."""

    status = 405
    code = "method_not_allowed"
    sentence = "This address does not take that method."


class BodyTooLarge(QmError):
    """413 ``body_too_large``."""

    status = 413
    code = "body_too_large"
    sentence = "The body is larger than this address takes."


class RateLimited(QmError):
    """429 ``rate_limited`` and its kin; ``headers`` carry ``Retry-After`` and ``X-RateLimit-*``."""

    status = 429
    code = "rate_limited"
    sentence = "Too many requests"


class Unavailable(QmError):
    """503 with ``Retry-After``."""

    status = 503
    code = "overloaded"
    sentence = "The server cannot take this request just now."

    def __init__(self, sentence: str | None = None, *, retry_after_sec: int = 5, **kw: Any) -> None:
        headers = {"Retry-After": str(retry_after_sec), **(kw.pop("headers", None) or {})}
        super().__init__(sentence, headers=headers, **kw)


class StorageUnavailable(Unavailable):
    """503 ``storage_unavailable``: a store cannot be reached, a commit failed, or the room is being rebuilt."""

    code = "storage_unavailable"
    sentence = "The queue's storage cannot be reached. Try again shortly."


def snake(name: str) -> str:
    """``ratePerMinute`` → ``rate_per_minute``."""
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


def camel(name: str) -> str:
    """``rate_per_minute`` → ``ratePerMinute``."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
