"""Short spellings of the JSON Schemas (draft 2020-12) that the API's bodies and answers are made of."""

from __future__ import annotations

from typing import Any, Final

Shape = dict[str, Any]

TEXT: Final[Shape] = {"type": "string"}
FLAG: Final[Shape] = {"type": "boolean"}
COUNT: Final[Shape] = {"type": "integer", "minimum": 0}
TIME: Final[Shape] = {"type": "integer", "minimum": 0, "description": "Epoch ms."}
NULL: Final[Shape] = {"type": "null"}
ANY: Final[Shape] = {}


def one_of(*words: str | None) -> Shape:
    """One of some words; None stands for ``null``."""
    return {"enum": list(words)}


def const(value: object) -> Shape:
    """Exactly this value."""
    return {"const": value}


def maybe(shape: Shape) -> Shape:
    """``shape`` or ``null``."""
    kind = shape.get("type")
    if isinstance(kind, str):
        return {**shape, "type": [kind, "null"]}
    return {"anyOf": [shape, NULL]}


def integer(low: int, high: int) -> Shape:
    """A whole number within bounds."""
    return {"type": "integer", "minimum": low, "maximum": high}


def listed(shape: Shape, *, at_most: int | None = None) -> Shape:
    """A list of ``shape``."""
    found: Shape = {"type": "array", "items": shape}
    return found if at_most is None else {**found, "maxItems": at_most}


def struct(required: dict[str, Shape], optional: dict[str, Shape] | None = None) -> Shape:
    """An object that has all of ``required`` and may have ``optional``. Answers may grow further members (VIS-190)."""
    found: Shape = {"type": "object", "properties": {**required, **(optional or {})}}
    return {**found, "required": list(required)} if required else found


def body_of(required: dict[str, Shape], optional: dict[str, Shape] | None = None) -> Shape:
    """An object that a caller sends: any other member is refused as ``unknown_field``."""
    return {**struct(required, optional), "additionalProperties": False}


def map_of(shape: Shape) -> Shape:
    """An object whose names are data."""
    return {"type": "object", "additionalProperties": shape}


def ref(name: str) -> Shape:
    """A shape of ``components/schemas``."""
    return {"$ref": f"#/components/schemas/{name}"}
