"""A string that no log line, error or answer can print by accident."""

from __future__ import annotations

from typing import Final, Never

REDACTED: Final = "[redacted]"


class Secret:
    """Holds a secret; only ``reveal()`` gives it out. Falsy when empty."""

    __slots__ = ("__value",)

    def __init__(self, value: str) -> None:
        self.__value = value

    def reveal(self) -> str:
        """The secret itself."""
        return self.__value

    def __bool__(self) -> bool:
        return bool(self.__value)

    def __len__(self) -> int:
        return len(self.__value)

    def __repr__(self) -> str:
        return REDACTED

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return REDACTED

    def __eq__(self, _other: object) -> Never:
        raise TypeError("compare secrets with hmac.compare_digest over reveal()")

    __hash__ = object.__hash__

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        """Secrets travel to this server's own processes, over the pipe that starts them."""
        return Secret, (self.__value,)
