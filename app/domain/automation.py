"""What a room does by itself: threshold activation (``autoActivate``) and autotune. Values, defaults and checks.

Not here: when the queue is switched (the engine's ``auto_switch``), how a rate is found (autotune.py). Source: ENG-044,
ENG-045, ENG-213, ENG-223.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from app.core.errors import camel, snake
from app.domain.field_checks import Check, integer


@dataclass(frozen=True, slots=True)
class AutoActivate:
    """Threshold activation of a room."""

    enabled: bool
    joins_per_min: int = 120
    """Arrivals per minute at which the queue is switched on."""
    sustain_sec: int = 60
    release_after_sec: int = 300
    """Quiet time after which it is switched off again; 0 = never by itself."""


@dataclass(frozen=True, slots=True)
class Autotune:
    """Autotune of a room. Rates are promotions per minute."""

    enabled: bool
    min_rate: int = 1
    max_rate: int | None = None
    """None only where it is off, and for the server's default: then the last rate that a person set."""
    target_ms: int = 1000
    """Answer time of the site above which the rate is lowered."""


MEMBERS: Final = {
    "autoActivate": tuple(camel(member.name) for member in fields(AutoActivate)),
    "autotune": tuple(camel(member.name) for member in fields(Autotune)),
}
"""JSON names inside the two objects."""
READ_ONLY_MEMBERS: Final = {"autoActivate": ("lastSwitchAt", "lastSwitch"), "autotune": ()}
"""Facts that a read object carries and a body may send back (ENG-049)."""

_AUTO_ACTIVATE: Final = {
    "joinsPerMin": integer(1, 1_000_000),
    "sustainSec": integer(1, 3600),
    "releaseAfterSec": integer(0, 86_400),
}
_AUTOTUNE: Final = {
    "minRate": integer(1, 100_000),
    "maxRate": integer(1, 100_000, nullable=True),
    "targetMs": integer(50, 30_000),
}


def auto_activate(value: Any) -> AutoActivate | None:
    """``autoActivate`` of a body whose unknown members were refused before; missing members take their defaults."""
    return None if value is None else AutoActivate(**_checked(value, _AUTO_ACTIVATE))


def autotune(value: Any) -> Autotune | None:
    """``autotune`` of a body whose unknown members were refused before; missing members take their defaults."""
    if value is None:
        return None
    tune = Autotune(**_checked(value, _AUTOTUNE))
    if tune.enabled and tune.max_rate is None:
        raise ValueError("needs maxRate while it is enabled")
    if tune.max_rate is not None and tune.max_rate < tune.min_rate:
        raise ValueError("needs a maxRate that is not below minRate")
    return tune


def members_json(value: AutoActivate | Autotune) -> dict[str, Any]:
    """The object of the API."""
    return {camel(member.name): getattr(value, member.name) for member in fields(value)}


def _checked(value: Any, checks: Mapping[str, Check]) -> dict[str, Any]:
    """The members of a JSON object by attribute, each checked."""
    if not isinstance(value, dict):
        raise ValueError("must be an object or null")  # noqa: TRY004 - one exception for every bad value
    if type(value.get("enabled")) is not bool:
        raise ValueError("needs enabled, true or false")
    found: dict[str, Any] = {"enabled": value["enabled"]}
    for name, check in checks.items():
        if name in value:
            try:
                found[snake(name)] = check(value[name])
            except ValueError as error:
                raise ValueError(f"cannot be used: {name} {error}") from error
    return found
