"""Errors of connections that no handler knows: told once for each start of the instance, then only counted (OBS-186).

The event loop hands over what a transport could not make sense of, such as a client whose network went away in the
middle of an answer. Each would be a line with a trace. Not here: errors of requests (blueprints/errors.py).
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import structlog

from app.infrastructure.shared_notes import Counters

COUNTER: Final = "connection_errors"

log = structlog.get_logger(__name__)


class ConnectionErrors:
    """The exception handler of a web worker's loop."""

    def __init__(self, counters: Counters) -> None:
        """``counters``: of the instance, so that one worker alone tells."""
        self._counters = counters

    def handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What the loop calls; anything else than the error of a connection goes the usual way."""
        error = context.get("exception")
        if not isinstance(error, OSError) or not ("transport" in context or "protocol" in context):
            loop.default_exception_handler(context)
            return
        is_first = self._counters.total(COUNTER) == 0
        self._counters.add(COUNTER)
        if is_first:
            log.warning("unknown_connection_error", error=f"{type(error).__name__}: {error}", said=context["message"])
