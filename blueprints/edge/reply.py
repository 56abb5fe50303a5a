"""An answer of a hot route, and the bytes it becomes.

The one place that spells the common headers of answers written by the edge (VIS-045): stock routes get the same
ones from middleware.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from app.domain.budget import Budget

JSON_TYPE: Final = b"application/json; charset=utf-8"

_JSON_LINE: Final = b"Content-Type: %b\r\n" % JSON_TYPE
_KEPT: Final = b"Connection: keep-alive\r\n"
_CLOSED: Final = b"Connection: close\r\n"
_COMMON: Final = b"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"


@dataclass(slots=True)
class HotReply:
    """What a hot handler answers. The edge adds the common headers, framing and ``X-RateLimit-*``."""

    status: int = 200
    body: bytes = b""
    cookies: Sequence[bytes] = ()
    """Ready ``Set-Cookie`` values."""
    headers: Sequence[tuple[bytes, bytes]] = ()
    """Further headers; not those the edge adds itself."""
    content_type: bytes = JSON_TYPE
    block: bytes = b""
    """Ready header lines with their line ends, made once for many answers; not from what a visitor sent unchecked."""


def json_reply(
    fields: dict[str, Any],
    *,
    status: int = 200,
    cookies: list[bytes] | None = None,
    headers: list[tuple[bytes, bytes]] | None = None,
) -> HotReply:
    """Answer with a JSON object."""
    return HotReply(status, dump(fields), cookies or [], headers or [])


def dump(fields: dict[str, Any]) -> bytes:
    """Compact JSON, in ASCII: what a visitor sent comes back escaped, whatever the reader takes its charset to be."""
    return _ENCODER.encode(fields).encode()


_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def status_line(status: int) -> bytes:
    """``HTTP/1.1 200 OK`` with its line end."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Answer"
    return f"HTTP/1.1 {status} {phrase}\r\n".encode()


_PREFIX: Final = {
    (status.value, keep): status_line(status.value) + _COMMON + (_KEPT if keep else _CLOSED)
    for status in HTTPStatus
    if status.value >= 200
    for keep in (True, False)
}
_NO_BODY: Final = frozenset({204, 304})


def render(reply: HotReply, request_id: str, keep_alive: bool, head_only: bool, budget: Budget | None) -> bytes:
    """The whole answer as bytes, ready for one write.

    ``head_only`` leaves the body out and its length in (VIS-038). A status that may not have a body gets none.
    """
    status, body = reply.status, reply.body
    text = f"X-QM-Request-Id: {request_id}\r\n"
    if budget is not None and budget[1]:
        text += _limits(budget)
    start = _PREFIX.get((status, keep_alive)) or _prefix(status, keep_alive)
    if status in _NO_BODY:
        body = b""
    elif reply.content_type is JSON_TYPE:
        start += b"%bContent-Length: %d\r\n" % (_JSON_LINE, len(body))
    else:
        start += b"Content-Type: %b\r\nContent-Length: %d\r\n" % (reply.content_type, len(body))
    lines = reply.block
    for value in reply.cookies:
        lines += b"Set-Cookie: %b\r\n" % value
    for name, value in reply.headers:
        if b"\n" in value or b"\r" in value:
            raise ValueError(f"a line end in the value of {name!r}")
        lines += b"%b: %b\r\n" % (name, value)
    return b"%b%b%b\r\n%b" % (start, text.encode(), lines, b"" if head_only else body)


def _limits(budget: Budget) -> str:
    """The lines of ``Budget.headers``."""
    allowed, limit, remaining, reset_sec, retry_after_sec = budget
    lines = f"X-RateLimit-Limit: {limit}\r\nX-RateLimit-Remaining: {remaining}\r\nX-RateLimit-Reset: {reset_sec}\r\n"
    return lines if allowed else f"{lines}Retry-After: {retry_after_sec}\r\n"


def _prefix(status: int, keep_alive: bool) -> bytes:
    return status_line(status) + _COMMON + (_KEPT if keep_alive else _CLOSED)
