"""Nothing that a visitor sends makes a check fail or lets him in, be it by himself or through a connector."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any
from urllib.parse import quote_from_bytes

import pytest

from app.core.errors import QmError
from app.core.secret import Secret
from app.domain.client_address import resolve_client
from app.infrastructure.rate_limiter import RateLimiter
from blueprints.edge.head import head_end, parse_head
from blueprints.edge.reading import Reading
from blueprints.edge.request import HotRequest
from tests.journal.house import House
from tests.visitor.site import Site

KEY = "a-public-key-of-the-connectors"
PAGE = b"https://shop.example/checkout"
ODD = [
    b"", b"%", b"%00", b"%FF%FE", b"%F0%9F%92%A9", b"\xff\xfe", b"\x00", b"\t", b" ", b'"', b"'", b";", b",", b"=;=;",
    b"\xed\xa0\x80", b"\xc0\x80", "\u0000\u202e\ufeff".encode(), "é".encode() * 300, b"a" * 9000, b"[" * 3000,
    b"{}", b"null", b"-1", b"1e999", b"eyJhIjoxfQ.x", b"a.b.c", b"." * 50, b"../../etc/passwd", b"javascript:x",
    b"//evil.example", b"https://[::1", b"https://shop.example:99999/", b"https://\xff/", b"data:,", b"qm_shop=1",
    b"%u0041", b"&room=other", b"#", b"?" * 20, b"9" * 400, b"'; DROP TABLE rooms; --", b"<script>", b"${x}",
]  # fmt: skip
NAMES = [
    *("Cookie", "Cookie", "User-Agent", "Accept", "X-QM-Door-Key", "X-Forwarded-For", "X-Forwarded-Proto", "Forwarded"),
    *("CF-Connecting-IP", "X-Real-IP", "X-QM-Edge", "Referer", "Accept-Language", "X-Forwarded-Host", "Via"),
    *("Content-Type", "Sec-CH-UA", "If-None-Match", "Connection", "Pragma", "DNT", "X-Unknown", "Priority", "Range"),
    *("Authorization", "X-QM-Failover", "Sec-Fetch-Dest", "Cache-Control", "TE", "Via", "X_Forwarded_For", "Cookie2"),
]
FRAMING = [
    "Transfer-Encoding",
    "Content-Length",
    "Host",
    "x y",
    "Sec-Fetch-Site",
    "Sec-Fetch-Mode",
    "Origin",
    "Upgrade",
]
"""Headers that mostly make a refusal of whatever they hold."""


_CONTROLS = bytes(range(0x20)) + b"\x7f"


class Dice:
    """Numbers that are the same in every run."""

    def __init__(self, seed: str) -> None:
        self._seed = seed.encode()
        self._turn = 0
        self._left = b""

    def bytes(self, count: int) -> bytes:
        while len(self._left) < count:
            self._turn += 1
            self._left += hashlib.blake2b(self._seed + self._turn.to_bytes(8, "big")).digest()
        taken, self._left = self._left[:count], self._left[count:]
        return taken

    def below(self, count: int) -> int:
        return int.from_bytes(self.bytes(4), "big") % count

    def pick(self, items: list[Any]) -> Any:
        return items[self.below(len(items))]

    def odd(self) -> bytes:
        """Something strange."""
        text: bytes = self.pick(ODD)
        match self.below(4):
            case 0:
                return text + self.bytes(self.below(40))
            case 1:
                return self.bytes(self.below(120))
            case 2:
                return text + self.odd()[:200]
        return text

    def line_text(self) -> bytes:
        """Something strange without a line end; mostly without what no head may hold at all."""
        text = self.odd()
        return text.translate(None, _CONTROLS if self.below(20) else b"\r\n")


def direct(dice: Dice) -> tuple[bytes, bytes]:
    """Head and body of a check that a stranger's browser, or no browser at all, could send."""
    query = [b"room=shop", b"url=" + quote_from_bytes(PAGE).encode()]
    for name in (b"token", b"url", b"tag", b"doorKey", b"return", b"x"):
        if not dice.below(3):
            value = dice.odd()
            query.append(name + b"=" + (quote_from_bytes(value).encode() if dice.below(8) else value))
    if not dice.below(8):
        query.append(dice.odd())
    method = dice.pick([b"GET", b"GET", b"GET", b"POST", b"POST", b"OPTIONS", b"HEAD"])
    target = b"/api/check?" + b"&".join(query[:1] + sorted(query[1:], key=lambda part: hashlib.md5(part).digest()))
    lines = [b"%b %b HTTP/1.1" % (method, target), b"Host: queue.example"]
    lines += [dice.pick(NAMES).encode() + b": " + dice.line_text() for _ in range(dice.below(6))]
    if not dice.below(8):
        lines.append(dice.pick([*FRAMING, "Expect"]).encode() + b": " + dice.line_text())
    cookies = [name for name in (b"qm_shop", b"qms_shop", b"qm_dk_shop") if not dice.below(3)]
    lines += [b"Cookie: " + name + b"=" + dice.line_text() for name in cookies]
    body = b""
    if method == b"POST":
        fields = {n: dice.odd().decode("utf-8", "replace") for n in ("token", "url", "doorKey", "tag") if dice.below(2)}
        body = json.dumps(fields, ensure_ascii=not dice.below(2)).encode("utf-8", "replace")
        if not dice.below(3):
            cut = dice.below(len(body) + 1)
            body = body[:cut] + dice.odd() + body[cut:]
        if not dice.below(6):
            body = dice.odd()
    return b"\r\n".join(lines) + b"\r\n\r\n", body


def vouched(dice: Dice) -> tuple[bytes, bytes]:
    """A connector's check: its own shape is right, and what it passes on is the visitor's, in the agreed sizes."""
    sent: list[tuple[str, bytes]] = [("agent", dice.odd().decode("utf-8", "replace")[:512].encode())]
    if dice.below(2):
        url = dice.odd()
        if len(quote_from_bytes(url)) <= 8000:
            sent.append(("url", url))
    if dice.below(2):
        sent.append(("token", dice.odd()[:1024]))
    lines = [b"Host: queue.example", b"Authorization: Bearer " + KEY.encode()]
    if dice.below(2):
        lines.append(b"X-QM-Door-Key: " + bytes(max(0x21, byte & 0x7E) for byte in dice.bytes(dice.below(128) + 1)))
    if dice.below(2):
        fields = {name: value.decode("utf-8", "replace") for name, value in sent}
        fields["ip"] = "203.0.113.9"
        line, body = b"POST /api/check?room=shop HTTP/1.1", json.dumps(fields).encode()
    else:
        query = "&".join(f"{name}={quote_from_bytes(value, safe=b'')}" for name, value in sent)
        line, body = f"GET /api/check?room=shop&ip=2001:db8::9&{query} HTTP/1.1".encode(), b""
    return b"\r\n".join([line, *lines]) + b"\r\n\r\n", body


async def answer_of(site: Site, head: bytes, body: bytes) -> tuple[int, dict[str, Any] | None]:
    """Status and JSON of a request, read and answered as the edge does; a head that it refuses has no JSON."""
    try:
        parsed = parse_head(head[: head_end(head)])
    except QmError as refusal:
        return refusal.status, None
    client = resolve_client("198.51.100.7", parsed.headers.get, site.policy)
    path = parsed.path.decode("latin-1")
    request = HotRequest(parsed.method, path, parsed.query, Reading(parsed, client), body, "REQUEST")
    if site.table.find(parsed.method, parsed.path) is None:
        return 404, None
    answer = await site.serve(request)
    return answer.status, answer.json if answer.reply.body else {}


async def fuzz(house: House, limiter: RateLimiter, count: int) -> Counter[Any]:
    """Send ``count`` checks, every fourth of a connector; what came back, by kind."""
    site = Site(house, limiter, public_api_key=Secret(KEY), admin_auth_fail_per_min=0)
    try:
        await site.create(max_concurrent=None)
        seen: Counter[Any] = Counter()
        for number in range(count):
            dice = Dice(f"check {number}")
            is_vouched = number % 4 == 0
            head, body = (vouched if is_vouched else direct)(dice)
            status, fields = await answer_of(site, head, body)
            assert status < 500, (head, body, fields)
            if is_vouched:
                assert status == 200, (head, body, fields)
            if status == 200:
                assert fields is not None
                assert fields["action"] == "queue", (head, body, fields)
            seen["vouched" if is_vouched else "direct", status] += 1
        assert await house.tickets("shop") == [], "a check gives nobody a place"
        return seen
    finally:
        await site.stop()


@pytest.mark.req("VIS-232")
async def test_it_answers_strange_checks_with_the_queue(house: House, limiter: RateLimiter) -> None:
    seen = await fuzz(house, limiter, 2_000)

    assert seen["vouched", 200] == 500
    assert seen["direct", 200] > 300
    assert seen["direct", 400] > 50


@pytest.mark.slow
@pytest.mark.req("VIS-232")
@pytest.mark.timeout(1800)
async def test_it_answers_a_hundred_thousand_strange_checks_with_the_queue(house: House, limiter: RateLimiter) -> None:
    assert (await fuzz(house, limiter, 100_000)).total() == 100_000
