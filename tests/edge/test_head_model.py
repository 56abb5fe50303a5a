"""The quick reading of heads against a slow one that is plainly right."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from app.core.errors import QmError
from blueprints.edge.head import parse_head

TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")

NAMES = [b"Host", b"host", b"HOST", b"X-A", b"Cookie", b"cookie", b"Accept", b"X Y", b"", b"Cookie ", b"\xe4", b"X\0"]
VALUES = [
    b"a.test",
    b"1",
    b" 1 ",
    b"a: b",
    b": ",
    b"\t",
    b"",
    b"x\ry",
    b"x\ny",
    b"x\r\ny",
    b"\0",
    b"\x7f",
    b"\xff",
    b"c",
]
SEPARATORS = [b": ", b":", b":  ", b" : ", b":\t", b"", b" "]
ENDS = [b"\r\n"] * 12 + [b"\n", b"\r", b"\r\n ", b"\r\n\t", b" \r\n"]
LINES = [b"GET / HTTP/1.1", b"GET /x?y=z HTTP/1.0", b"POST /\xe4 HTTP/1.1"]

FIELD = st.tuples(st.sampled_from(NAMES), st.sampled_from(SEPARATORS), st.sampled_from(VALUES))
BLOCK = st.tuples(st.sampled_from(LINES), st.lists(st.tuples(st.sampled_from(ENDS), FIELD), max_size=5))


def slow(block: bytes) -> list[tuple[bytes, bytes]] | None:
    """Names and values by the letter of the rules; None when a line breaks them."""
    found = []
    for line in block.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if not colon or not TOKEN.fullmatch(name) or not VALUE.fullmatch(value):
            return None
        found.append((name.lower(), value.strip(b" \t")))
    hosts = [value for name, value in found if name == b"host"]
    is_old = block.startswith(LINES[1])
    if hosts not in ([b"a.test"], [b"1"], [b"c"]) and not (is_old and not hosts):
        return None
    return found if block.split(b"\r\n")[0] in LINES else None


@settings(max_examples=3000, deadline=None)
@given(BLOCK)
def test_it_reads_headers_as_the_slow_reading_does(parts: tuple[bytes, list[tuple[bytes, tuple[bytes, ...]]]]) -> None:
    line, fields = parts
    block = line + b"".join(end + b"".join(field) for end, field in fields)
    assume(not block.endswith(b"\r\n"))  # the head ends there, and what comes behind is no part of it
    wanted = slow(block)

    if wanted is None:
        with pytest.raises(QmError):
            parse_head(block)
        return

    head = parse_head(block)
    assert sorted(head.pairs()) == sorted(wanted)
    assert all(value in head.headers[name] for name, value in wanted)
