"""The ref of a ticket: six characters that a visitor can read out to support. Source: ENG-244."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from typing import Final

REF_CHARS: Final = 6
_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base32: no I, L, O, U."""
_PAIRS: Final = tuple(a + b for a in _ALPHABET for b in _ALPHABET)
_READ: Final = str.maketrans({"O": "0", "I": "1", "L": "1", "-": None, " ": None})


@lru_cache(16384)
def ref_of(room_id: str, generation: int, place: int | str) -> str:
    """The ref of a ticket number or pre-queue handle: the first 30 bits of SHA-256 over room id, generation and it.

    The three parts are joined by NUL bytes, numbers in decimal, a handle as its token has it (ENG-245). Remembered: a
    page asks again every few seconds.
    """
    first = ref_number(room_id, generation, place)
    return _PAIRS[first >> 20] + _PAIRS[(first >> 10) & 1023] + _PAIRS[first & 1023]


def ref_number(room_id: str, generation: int, place: int | str) -> int:
    """The 30 bits of a ref as a number; ``number_of`` reads the same from its text."""
    return int.from_bytes(sha256(f"{room_id}\0{generation}\0{place}".encode()).digest()[:4], "big") >> 2


def number_of(ref: str) -> int:
    """The 30 bits of a ref as ``read_ref`` gives it."""
    number = 0
    for char in ref:
        number = number << 5 | _ALPHABET.index(char)
    return number


def read_ref(text: str) -> str | None:
    """``text`` as somebody typed it, brought to the form of ``ref_of``; None = it is no ref."""
    ref = text.upper().translate(_READ)
    return ref if len(ref) == REF_CHARS and all(c in _ALPHABET for c in ref) else None
