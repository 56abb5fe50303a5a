"""Log lines: one event a line on stderr, as text or JSON, with secrets taken out and nothing in it that forges a line.

Code logs events, not sentences: ``log = structlog.get_logger(__name__)``, then ``log.info("room_created", room=…)``.
Lines of libraries arrive through the standard ``logging`` and leave in the same form.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterable, MutableMapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final, TextIO

import structlog

from app.core.clock import wall_ms
from app.core.runtime import Runtime
from app.core.secret import REDACTED, Secret

REQUEST_ID: Final[ContextVar[str]] = ContextVar("request_id")
"""Set by the edge for the time of one request; every line written in it carries the id (BUD-085)."""
LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
# Names of fields whose values are secrets whatever their type; `ticket` is a number and stays readable.
_SECRET_FIELD: Final = re.compile(r"secret|token|cookie|authorization|password|(^|_)key$|email|database_url|valkey_url")
_LEAST_SECRET: Final = 6
"""Shorter secrets are not searched for in lines: the text would be taken out of innocent words."""

TEXT_MAX: Final = 256
_TRACE_MARK: Final = "    | "
"""What each line of a trace begins with in text form; a line of its own begins with a time."""

Event = MutableMapping[str, Any]


def configure(
    *, level: str, form: str, instance: str, secrets: Iterable[Secret | None] = (), stream: TextIO | None = None
) -> None:
    """Set up logging of this process; called once by each entry point.

    Args:
        level: least severe line written: debug, info, warning or error.
        form: ``text`` or ``json``.
        instance: display name of the instance, in every line.
        secrets: values that are replaced wherever they turn up, exception texts included.
        stream: where lines go; default stderr.
    """
    out = stream or sys.stderr
    hidden = tuple(item.reveal() for item in secrets if item is not None and len(item) >= _LEAST_SECRET)
    threshold = LEVELS[level]

    def tidy(_logger: Any, _method: str, event: Event) -> Event:
        # Secrets first: a value that is cut in the middle of one would not be found any more.
        for name, value in event.items():
            event[name] = _trace(value) if name == "exception" else _tidy(value, hidden)
        return event

    def render(_logger: Any, _method: str, event: Event) -> str:
        line = _as_json(event) if form == "json" else _as_text(event)
        for value in hidden:
            line = line.replace(value, REDACTED)
        return line

    def stamp(_logger: Any, method: str, event: Event) -> Event:
        event["level"] = "error" if method == "exception" else method
        event["instance"] = instance
        request_id = REQUEST_ID.get(None)
        if request_id is not None:
            event.setdefault("request_id", request_id)
        return event

    structlog.configure(
        processors=[
            stamp,
            structlog.processors.format_exc_info,
            _redact,
            tidy,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers[:] = [_Forward()]
    root.setLevel(max(threshold, LEVELS["info"]))
    for name in ("sanic.root", "sanic.error", "sanic.access", "sanic.server", "sanic.websockets"):
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
        library.setLevel(LEVELS["warning"])


def configure_for(runtime: Runtime) -> None:
    """``configure`` for a process of the server."""
    settings = runtime.settings
    configure(
        level=settings.log_level,
        form=settings.log_format,
        instance=runtime.instance_id,
        secrets=[
            *settings.secrets(),
            *(Secret(url) for url in (runtime.valkey_url, runtime.database_url) if not runtime.is_private),
        ],
    )


class _Forward(logging.Handler):
    """Hands lines of the standard ``logging`` over to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        level = max((name for name, number in LEVELS.items() if number <= record.levelno), key=LEVELS.__getitem__)
        extra: dict[str, Any] = {"logger": record.name}
        if record.exc_info:
            extra["exc_info"] = record.exc_info
        getattr(structlog.get_logger(), level)(record.getMessage(), **extra)


def _redact(_logger: Any, _method: str, event: Event) -> Event:
    for name, value in event.items():
        if isinstance(value, Secret) or (_SECRET_FIELD.search(name) and not isinstance(value, int | float)):
            event[name] = REDACTED
    return event


def _time() -> str:
    return datetime.fromtimestamp(wall_ms() / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _as_json(event: Event) -> str:
    rest = dict(event)
    first = {"ts": _time(), "level": rest.pop("level"), "instance": rest.pop("instance"), "msg": rest.pop("event")}
    if (request_id := rest.pop("request_id", None)) is not None:
        first["requestId"] = request_id
    return json.dumps(first | rest, default=str, ensure_ascii=False)


def _as_text(event: Event) -> str:
    rest = dict(event)
    trace = rest.pop("exception", None)
    head = f"{_time()} {rest.pop('level'):<7} {rest.pop('event')}"
    rest.pop("instance")
    fields = "".join(f" {name}={_plain(str(value))}" for name, value in rest.items())
    return head + fields + ("".join(f"\n{_TRACE_MARK}{line}" for line in trace.split("\n")) if trace else "")


def _tidy(value: Any, hidden: Iterable[str]) -> Any:
    """A value as it may stand in a line: of text that may be a stranger's at most 256 characters (OBS-193)."""
    if isinstance(value, str):
        for secret in hidden:
            value = value.replace(secret, REDACTED)
        value = _plain(value)
        return value if len(value) <= TEXT_MAX else value[:TEXT_MAX] + "…"
    if isinstance(value, dict):
        return {_tidy(name, hidden): _tidy(one, hidden) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_tidy(one, hidden) for one in value]
    return value if isinstance(value, int | float | None) else _tidy(str(value), hidden)


def _trace(text: str) -> str:
    """A trace whose lines hold nothing that moves a cursor."""
    return "\n".join(map(_plain, text.split("\n")))


def _plain(text: str) -> str:
    """Text without anything that could end the line or move a terminal's cursor."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
