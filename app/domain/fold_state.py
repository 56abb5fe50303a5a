"""A folded room as bytes and back: what a checkpoint keeps (ENG-252).

Every field of RoomFold is kept, whatever it is called, so that a fold that learns new facts needs nothing here. A state
with other fields than this build's fold is not read: it was made by a fold that added up other things. Not here: where
the pieces are kept (infrastructure/snapshots.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final

import ujson

from app.domain.fold import RoomFold
from app.domain.fold_doors import DoorsFold

STATE_FORM: Final = 1
"""Raised when the same fields come to mean something else."""
PIECE_BYTES: Final = 4 << 20
"""Most bytes of one piece of records."""

_MOMENT: Final = "now_ms"
"""The moment of a fold is the reader's, not the state's."""
_PART: Final = "pre_queue"
"""The field that is a fold of its own; its fields are kept as ``pre_queue.<name>``."""


class UnreadableState(ValueError):
    """Pieces of another build's fold, or damaged ones."""


def dump_fold(fold: RoomFold) -> Iterator[bytes]:
    """The state of ``fold`` in pieces; the first names what follows."""
    values = {name: attrgetter(name)(fold) for name in _names()}
    records = {name: value for name, value in values.items() if isinstance(value, bytearray)}
    plain = {name: _coded(value) for name, value in values.items() if name not in records}
    sizes = [[name, len(value)] for name, value in records.items()]
    yield ujson.dumps({"plain": plain, "records": sizes}).encode()
    for value in records.values():
        for at in range(0, len(value), PIECE_BYTES):
            yield bytes(value[at : at + PIECE_BYTES])


def load_fold(pieces: Sequence[bytes], now_ms: int) -> RoomFold:
    """The fold whose pieces these are, as if it had been made with moment ``now_ms``. Raises UnreadableState."""
    try:
        head = ujson.loads(pieces[0])
        values: dict[str, Any] = {name: _decoded(value) for name, value in head["plain"].items()}
        stream = b"".join(pieces[1:])
        at = 0
        for name, size in head["records"]:
            values[name] = bytearray(stream[at : at + size])
            at += size
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise UnreadableState("the pieces cannot be read") from error
    if values.keys() != set(_names()) or at != len(stream):
        raise UnreadableState("made by another build's fold, or cut off")
    fold = RoomFold(now_ms)
    for name, value in values.items():
        owner, _, own = name.rpartition(".")
        setattr(attrgetter(owner)(fold) if owner else fold, own, value)
    fold.renew()
    return fold


def _names() -> list[str]:
    own = [field.name for field in fields(RoomFold) if field.name not in (_MOMENT, _PART)]
    return [*own, *(f"{_PART}.{field.name}" for field in fields(DoorsFold))]


def _coded(value: Any) -> Any:
    """JSON of a value; bytes, containers and keys that are no text are named as what they are."""
    if value is None or isinstance(value, str | bool | float):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, dict):
        return {"dict": [[_coded(key), _coded(member)] for key, member in value.items()]}
    for word, kind in (("list", list), ("tuple", tuple), ("set", set)):
        if type(value) is kind:
            return {word: [_coded(member) for member in value]}
    raise TypeError(f"a fold holds a {type(value).__name__}, which no checkpoint can keep")


def _decoded(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((word, content),) = value.items()
    if word == "bytes":
        return bytes.fromhex(content)
    if word == "dict":
        return {_decoded(key): _decoded(member) for key, member in content}
    return {"list": list, "tuple": tuple, "set": set}[word](map(_decoded, content))
