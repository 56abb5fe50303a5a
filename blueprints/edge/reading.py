"""What follows from the header lines of a request alone, read once for all requests that bring the same ones.

A browser sends the same lines with every call of a page, down to its cookies, and proxies mix many browsers on one
connection. So the memory is the process's, by peer and bytes. It is bounded, and made-up lines only empty it.
Belongs here: headers, client and cookies of such lines, and a place where services keep what they concluded from them.
Not here: the request line and the body, which change from call to call.
"""

from __future__ import annotations

from typing import Any, Final

from app.domain.client_address import Client, ClientResolver
from blueprints.edge.head import Fields, parse_fields
from blueprints.edge.recurring import Recurring

COOKIES_PER_NAME: Final = 4
"""Of several cookies with one name the first 4 are read (VIS-227)."""
COOKIES_MAX: Final = 512
"""Above what any browser sends; what comes behind counts as not sent."""

_KEPT_MAX_BYTES: Final = 1536
"""Longer lines are not kept; a reading has about 3 KB."""
MEMO_MAX: Final = 4
"""Conclusions kept with one reading."""


class Reading:
    """Header lines as read. Nobody may change what hangs on it: other requests share it."""

    __slots__ = ("_jar", "client", "fields", "headers", "memo")

    def __init__(self, fields: Fields, client: Client) -> None:
        self.fields = fields
        self.headers = fields.headers
        """Values by lower-case name; several lines of one name are joined by ``, `` (cookies by ``; ``)."""
        self.client = client
        """Who asks: the only source of address, scheme and host."""
        self.memo: dict[Any, Any] = {}
        """What was concluded from these lines, by whatever else it rests on; see ``conclude``."""
        self._jar: dict[str, list[str]] | None = None

    def jar(self) -> dict[str, list[str]]:
        """All cookies: by name the first 4 values, in the order sent."""
        if self._jar is None:
            self._jar = parse_cookies(self.headers.get(b"cookie"))
        return self._jar

    def conclude(self, key: Any, value: Any) -> None:
        """Keep ``value`` in ``memo`` for the next request with these lines."""
        if len(self.memo) >= MEMO_MAX:
            self.memo.clear()
        self.memo[key] = value


class Readings:
    """Readings of one process."""

    __slots__ = ("_kept", "_resolver")

    def __init__(self, resolver: ClientResolver) -> None:
        """``resolver`` says who sent them."""
        self._resolver = resolver
        self._kept: Recurring[tuple[str, bool, bytes], Reading] = Recurring()

    def read(self, block: bytes, minor: int, peer: str, *, declared: bool, tls: bool) -> Reading:
        """Reading of header lines (without the line end of the last one) from ``peer``; raises like ``parse_head``."""
        key = (peer, tls, block)
        kept = self._kept.get(key)
        if kept is not None and minor == 1:
            return kept
        reading = self.of(parse_fields(block, minor), peer, declared=declared, tls=tls)
        if minor == 1 and len(block) <= _KEPT_MAX_BYTES:
            self._kept.keep(key, reading)
        return reading

    def of(self, fields: Fields, peer: str, *, declared: bool, tls: bool) -> Reading:
        """A reading that is not kept."""
        return Reading(fields, self._resolver.resolve(peer, fields.headers, declared=declared, tls=tls))


def parse_cookies(raw: bytes | None) -> dict[str, list[str]]:
    """Values by name of a joined Cookie header, at most 4 a name; quotes around a value are cut off.

    Each byte becomes one character.
    """
    found: dict[str, list[str]] = {}
    if not raw:
        return found
    for part in raw.decode("latin-1").split(";", COOKIES_MAX)[:COOKIES_MAX]:
        name, equals, value = part.strip(" \t").partition("=")
        if not equals:
            continue
        if value[:1] == '"' and len(value) > 1 and value[-1] == '"':
            value = value[1:-1]
        values = found.get(name)
        if values is None:
            found[name] = [value]
        elif len(values) < COOKIES_PER_NAME:
            values.append(value)
    return found
