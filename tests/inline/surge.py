"""The surge table (INL-230): how a state is answered, to a page request and to a call, in words that rows compare."""

from __future__ import annotations

import json
from typing import NamedTuple

from tests.inline.conftest import Front
from tests.inline.people import CALL, PAGE, Visitor
from tests.inline.raw import Answer, Client

QUEUED, ORIGIN, RETRY = "x-qm-queued", "x-qm-origin", "retry-after"


class Row(NamedTuple):
    """One answer: ``what`` it is, and its marks."""

    status: int
    what: str
    """Of a page: waiting, small, retry, origin-down, app; of a call: its code and reason, or app."""
    queued: str | None
    origin: str | None
    retry: str | None

    @property
    def cdn_acts(self) -> bool:
        """Whether a failover rule shows its outage page: a 5xx with neither mark."""
        return self.status >= 500 and self.queued is None and self.origin is None


def read(answer: Answer, *, is_page: bool) -> Row:
    """The row of an answer; never a page for a call, nor an empty 200 (INL-231)."""
    return Row(answer.status, _what(answer, is_page=is_page), *map(answer.header, (QUEUED, ORIGIN, RETRY)))


def _what(answer: Answer, *, is_page: bool) -> str:
    assert answer.body or answer.status != 200
    kind, body = answer.header("content-type") or "", answer.body
    if kind.startswith("application/json"):
        said = json.loads(body)
        return " ".join(filter(None, (said["code"], said.get("reason"))))
    if kind.startswith("text/html"):
        assert is_page, body
        if b"data-room=" in body:
            return "waiting"
        if b"qm_origin_down_attempts" in body:
            return "origin-down"
        return "retry" if b'http-equiv="refresh"' in body else "small"
    return "app" if body else ""


def head(method: str, host: str, headers: dict[str, str]) -> str:
    lines = "".join(f"\n{name}: {value}" for name, value in headers.items())
    return f"{method} /cart?a=1 HTTP/1.1\nHost: {host}{lines}"


def rows(front: Front, host: str, **headers: str) -> tuple[Row, Row]:
    """A page request and a call of somebody without a ticket."""
    with front.connect() as page, front.connect() as call:
        _send(page, head("GET", host, {**PAGE, **headers}))
        _send(call, head("POST", host, {**CALL, **headers}))
        return read(page.answer(), is_page=True), read(call.answer(), is_page=False)


def rows_of(visitor: Visitor) -> tuple[Row, Row]:
    """The same of somebody who has cookies."""
    return read(visitor.page(), is_page=True), read(visitor.call(), is_page=False)


def _send(client: Client, text: str) -> None:
    client.send(text.replace("\n", "\r\n").encode() + b"\r\n\r\n")


def waiting(reason: str) -> tuple[Row, Row]:
    """Both rows of a room that queues."""
    return Row(503, "waiting", "1", None, "30"), Row(503, f"queued {reason}", "1", None, "5")


def storage() -> tuple[Row, Row]:
    """Both rows while nothing can be decided or recorded."""
    return Row(503, "retry", None, None, "5"), Row(503, "storage_unavailable", None, None, "5")


def app(status: int = 200, origin: str | None = None) -> tuple[Row, Row]:
    """Both rows of the app's own answer."""
    row = Row(status, "app", None, origin, None)
    return row, row


def down(status: int, code: str, failure: str) -> tuple[Row, Row]:
    """Both rows in the place of an app that fails."""
    return Row(status, "origin-down", None, failure, "15"), Row(status, code, None, failure, "15")
