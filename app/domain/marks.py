"""Marks: the one number by which an answer names the fact whose commit it waits for.

A mark is epoch · 2³² + seq. The epoch is in it because a rebuild, a restart of the live store and a change of its
primary end the life of facts that were not stored: the next fact after it takes the same seq, and must not be mistaken
for the lost one. The engine's Lua makes the same numbers.
"""

from __future__ import annotations

from typing import Final

SEQ_BITS: Final = 32
"""A room has fewer than 2³² facts a generation; with epochs below 2²⁰ a mark stays a whole double."""
_SEQ: Final = (1 << SEQ_BITS) - 1


def mark(epoch: int, seq: int) -> int:
    """Mark of a fact; 0 (nothing to wait for) when ``seq`` is 0."""
    return epoch << SEQ_BITS | seq if seq else 0


def split_mark(value: int) -> tuple[int, int]:
    """(epoch, seq) of a mark; epoch 0 when it carries none."""
    return value >> SEQ_BITS, value & _SEQ
