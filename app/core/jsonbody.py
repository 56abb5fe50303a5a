"""Strict reading of JSON bodies, the same at the hot routes and at all others (VIS-041).

Refused as ``400 bad_json``: anything but one object; bytes that are not UTF-8; nesting deeper than 32; a number of
more than 64 digits, or one too large for a double; ``NaN`` and ``Infinity``; a lone surrogate in a string; the same
name twice in one object (two readers of such a body could see two different requests).
The standard library's decoder is used: ujson reads ``NaN``, repeated names and lone surrogates without a word.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection
from typing import Any, Final, NoReturn

import ujson

from app.core.errors import BadJson, BodyTooLarge, UnknownField

BODY_MAX_BYTES: Final = 16 * 1024
DEPTH_MAX: Final = 32
DIGITS_MAX: Final = 64

_LONG_NUMBER: Final = re.compile(rb"[0-9][0-9.eE+-]{%d}" % DIGITS_MAX)
_PLAIN_BYTES: Final = bytes(byte for byte in range(0x20, 0x100) if byte not in b"{[\\\x7f")
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_NUMBER: Final = re.compile(rb"-?[0-9][0-9.eE+-]*+")


def dump(value: Any) -> str:
    """JSON text as answers of the admin API have it."""
    return ujson.dumps(value, escape_forward_slashes=False, ensure_ascii=False)


def parse_object(
    body: bytes, *, max_bytes: int = BODY_MAX_BYTES, empty_ok: bool = False, constants_ok: bool = False
) -> dict[str, Any]:
    """The JSON object in ``body``.

    ``empty_ok``: a body of nothing but blanks counts as ``{}`` (routes whose fields are all optional).
    ``constants_ok``: ``NaN`` and ``Infinity`` are read as such numbers, for a caller that refuses them by the name of
    their field (ADM-018).
    Raises BodyTooLarge above ``max_bytes``, BadJson for everything that is no acceptable object.
    """
    if len(body) > max_bytes:
        raise BodyTooLarge
    if empty_ok and not body.strip(b" \t\r\n"):
        return {}
    plain = _plain(body)
    if plain is not None:
        return plain
    _check_shape(body)
    try:
        value = (_WITH_CONSTANTS if constants_ok else _DECODER).decode(body.decode())
    except (ValueError, RecursionError):
        raise BadJson from None
    if type(value) is not dict:
        raise BadJson
    if b"\\u" in body and not _is_text(value):
        raise BadJson
    return value


def refuse_unknown(fields: dict[str, Any], allowed: Collection[str], *, of: str = "this request") -> None:
    """Raise UnknownField naming every member of ``fields`` that is not ``allowed``."""
    if unknown := [name for name in fields if name not in allowed]:
        raise UnknownField(*unknown, of=of)


def _plain(body: bytes) -> dict[str, Any] | None:
    """The object if ``body`` is what a tag or page sends: one flat object of strings without escapes; else None.

    ujson is a tenth of the cost of the strict reading, and where it is lax the conditions leave no room: no escape,
    no second object, no list, no control character, no value but strings, and as many names as ``":``, so none twice.
    """
    if body.translate(None, _PLAIN_BYTES) != b"{":
        return None
    try:
        if not body.isascii() and not body.decode().isprintable():
            return None
        value = ujson.loads(body)
    except ValueError:
        return None
    if type(value) is not dict or body.count(b'":') != len(value):
        return None
    for member in value.values():
        if type(member) is not str:
            return None
    return value


def _check_shape(body: bytes) -> None:
    """Refuse deep nesting and long numbers before the decoder spends time, or stack, on them.

    Both counts are upper bounds that cost nothing; only a body that could be over a limit is looked at closely.
    """
    if body.count(b"[") + body.count(b"{") <= DEPTH_MAX and _LONG_NUMBER.search(body) is None:
        return
    bare = _STRING.sub(b"", body)
    depth = 0
    for byte in bare:
        if byte in b"[{":
            depth += 1
            if depth > DEPTH_MAX:
                raise BadJson(f"JSON may be nested {DEPTH_MAX} deep at most")
        elif byte in b"]}":
            depth -= 1
    for number in _NUMBER.findall(bare):
        if sum(map(number.count, (b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"8", b"9"))) > DIGITS_MAX:
            raise BadJson(f"A number may have {DIGITS_MAX} digits at most")


def _is_text(value: Any) -> bool:
    """Tell whether every string in ``value`` can be written as UTF-8, that is, holds no lone surrogate."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("repeated name")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(text)
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(text)


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_pairs, parse_float=_finite, parse_constant=_refuse_constant)
_WITH_CONSTANTS: Final = json.JSONDecoder(object_pairs_hook=_pairs, parse_float=_finite)
