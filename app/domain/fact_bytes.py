"""Byte forms that bodies of facts share (facts.py): numbers of tickets, JSON objects."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import ujson

Forms = Mapping[type, tuple[Callable[[Any], bytes], Callable[[bytes], Any]]]
"""Class of a fact → body from the fact, and fact from the body. The latter raises struct.error, ValueError,
LookupError or TypeError when the body does not fit."""


def json_bytes(value: Mapping[str, Any]) -> bytes:
    """A body that is a JSON object."""
    return ujson.dumps(value, ensure_ascii=False, escape_forward_slashes=False).encode()


def numbers_bytes(numbers: tuple[int, ...]) -> bytes:
    """Numbers of tickets or places, u32 each."""
    return struct.pack(f"<{len(numbers)}I", *numbers)


def read_numbers(data: bytes) -> tuple[int, ...]:
    """Reverse of ``numbers_bytes``."""
    return struct.unpack(f"<{len(data) // 4}I", data)
