"""Strict reading of JSON bodies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BadJson, BodyTooLarge, UnknownField
from app.core.jsonbody import parse_object, refuse_unknown

NINES = b"9" * 64


def deep(levels: int) -> bytes:
    return b'{"a":' * (levels - 1) + b"{}" + b"}" * (levels - 1)


@pytest.mark.req("VIS-041")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"[]",
        b'"a"',
        b"1",
        b"null",
        b"true",
        b"{",
        b"}",
        b"{}}",
        b"{} x",
        b'{"a":1,}',
        b"{'a':1}",
        b"{a:1}",
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":1e999}',
        b'{"a":-1e999}',
        b'{"a":01}',
        b'{"a":+1}',
        b'{"a":.5}',
        b'{"a":0x1}',
        b'{"a":"\n"}',
        b'{"a":"\\x"}',
        b'{"a":"\xff"}',
        b'{"a":"\xed\xa0\x80"}',
        b'{"a":"\xc0\x80"}',
        b"\xef\xbb\xbf{}",
        "{}".encode("utf-16"),
        b'{"a":"\\ud800"}',
        b'{"a":"\\udc00"}',
        b'{"a":["\\uD83D"]}',
        b'{"\\ud800":1}',
        b'{"a":"\\udc00\\ud800"}',
        b'{"a":1,"a":2}',
        b'{"a":{"b":1,"b":1}}',
        b'{"a":1,"\\u0061":2}',
        b'{"a":' + NINES + b"9}",
        b'{"a":-' + NINES + b"9}",
        b'{"a":0.' + NINES + b"}",
        b'{"a":' + NINES + b"e1}",
        b'{"a":[1,' + NINES + b"9]}",
        deep(33),
        b'{"a":' + b"[" * 32 + b"]" * 32 + b"}",
        b'{"a":' + b"[" * 8000 + b"]" * 8000 + b"}",
        b'{"a":' + b"[" * 8000,
    ],
)
def test_it_refuses_what_is_no_acceptable_object(body: bytes) -> None:
    with pytest.raises(BadJson):
        parse_object(body)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"{}", {}),
        (b' \t\r\n{ "a" : 1 } ', {"a": 1}),
        (b'{"a":"\\ud83d\\ude00"}', {"a": "😀"}),
        (b'{"a":"\\\\ud800"}', {"a": "\\ud800"}),
        (b'{"a":"NaN"}', {"a": "NaN"}),
        (b'{"a":' + NINES + b"}", {"a": int(NINES)}),
        (b'{"a":-' + NINES + b"}", {"a": -int(NINES)}),
        (b'{"a":"' + NINES * 3 + b'"}', {"a": (NINES * 3).decode()}),
        (b'{"a":"\\"' + NINES * 3 + b'"}', {"a": '"' + (NINES * 3).decode()}),
        (b'{"a":"' + b"[" * 500 + b'"}', {"a": "[" * 500}),
        (b'{"a":[' + b",".join([b"[]"] * 100) + b"]}", {"a": [[]] * 100}),
        (b'{"a":1.5e3,"b":null,"c":[true,false]}', {"a": 1500.0, "b": None, "c": [True, False]}),
        ('{"ä":"ö\u2028"}'.encode(), {"ä": "ö\u2028"}),
        (deep(32), json.loads(deep(32))),
    ],
)
def test_it_reads_an_object(body: bytes, value: dict[str, Any]) -> None:
    assert parse_object(body) == value


@pytest.mark.req("VIS-041")
def test_it_bounds_the_size() -> None:
    body = b'{"a":"' + b"x" * (16 * 1024 - 8) + b'"}'

    assert len(parse_object(body)["a"]) == 16 * 1024 - 8
    with pytest.raises(BodyTooLarge):
        parse_object(body + b" ")
    with pytest.raises(BodyTooLarge):
        parse_object(b"{}  ", max_bytes=3)


def test_it_takes_nothing_for_an_empty_object_where_that_is_allowed() -> None:
    assert parse_object(b"", empty_ok=True) == {}
    assert parse_object(b" \r\n", empty_ok=True) == {}
    with pytest.raises(BadJson):
        parse_object(b"[]", empty_ok=True)


@given(st.binary(max_size=200))
def test_it_never_fails_otherwise_than_by_refusing(body: bytes) -> None:
    try:
        found = parse_object(body)
    except BadJson:
        return

    assert found == json.loads(body)


LEAVES = st.none() | st.booleans() | st.integers(-(10**60), 10**60) | st.floats(allow_nan=False, allow_infinity=False)


@given(
    st.recursive(
        LEAVES | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=20,
    ).map(lambda value: {"a": value})
)  # fmt: skip
def test_it_reads_whatever_is_ordinary(value: dict[str, Any]) -> None:
    for ascii_only in (True, False):
        text = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
        try:
            assert parse_object(text) == value
        except BadJson:
            assert "\\ud" in json.dumps(value)


@pytest.mark.req("VIS-041")
def test_it_names_every_unknown_field() -> None:
    with pytest.raises(UnknownField) as caught:
        refuse_unknown({"a": 1, "b": 2, "c": 3}, {"b"}, of="a join")

    assert caught.value.body() == {
        "error": '"a" is not a field of a join',
        "code": "unknown_field",
        "fields": ["a", "c"],
    }
    refuse_unknown({"b": 2}, {"b"})


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_it_reads_numbers_that_are_none_for_a_caller_that_names_their_field(text: str) -> None:
    body = b'{"rate": %b}' % text.encode()

    (value,) = parse_object(body, constants_ok=True).values()
    assert str(value).lower() in ("nan", "inf", "-inf")
    with pytest.raises(BadJson):
        parse_object(body)
    with pytest.raises(BadJson):
        parse_object(text.encode(), constants_ok=True)
    with pytest.raises(BadJson):
        parse_object(b'{"rate": 1e999}', constants_ok=True)
