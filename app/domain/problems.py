"""Refusals of one body, gathered before anything is changed (ENG-054)."""

from __future__ import annotations

from app.core.errors import BadRequest


class Problems:
    """A list of problems; the first one gives the answer its code and sentence, all of them its ``fields``."""

    __slots__ = ("_code", "_fields", "_sentence")

    def __init__(self) -> None:
        self._code = self._sentence = ""
        self._fields: list[str] = []

    def add(self, name: str, code: str, sentence: str, *, more: tuple[str, ...] = ()) -> None:
        """Note that the field ``name`` (and those in ``more``) is refused."""
        if not self._fields:
            self._code, self._sentence = code, sentence
        self._fields += [field for field in (name, *more) if field not in self._fields]

    def raise_if_any(self) -> None:
        """Raise :class:`BadRequest` when something was noted."""
        if self._fields:
            raise BadRequest(self._sentence, code=self._code, fields=self._fields)
