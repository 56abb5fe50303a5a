"""One POST to an address that is told things: bounded in time and size, never redirected, over TLS that is verified.

Belongs here: the exchange and the class of its failure. Not here: when it is tried again (domain/alert_delivery.py).
The address is chosen by whoever sets the environment, so internal ones are allowed (WHK-159).
Source: WHK-040 … WHK-052, WHK-057, WHK-159, WHK-167, OBS-143.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import structlog

from app.core.clock import mono
from app.core.secret import Secret
from app.core.streams import send
from app.core.version import VERSION
from app.domain.alert_delivery import Delivery, Outcome, outcome_of
from app.infrastructure.address_guard import NotResolved, resolve
from app.infrastructure.knock import KnockFailed, read_head

LIMIT_SEC: Final = 5.0
"""Of a whole attempt (WHK-167)."""
ANSWER_BYTES: Final = 8192
ADDRESSES_TRIED: Final = 3
_PORTS: Final = {"http": 80, "https": 443}


log = structlog.get_logger(__name__)


class HookClient:
    """Sends to one address."""

    def __init__(self, url: Secret, *, limit_sec: float = LIMIT_SEC) -> None:
        """``url``: ``http(s)://…``, checked by the settings."""
        parts = urlsplit(url.reveal())
        self.host = parts.netloc.rpartition("@")[2]
        """Host and port as they may be shown (OBS-155)."""
        self._name = parts.hostname or ""
        self._port = parts.port or _PORTS[parts.scheme]
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._own_lines = _authorization(parts.username, parts.password)
        self._limit = limit_sec
        self._tls: ssl.SSLContext | None = None
        if parts.scheme == "https":
            self._tls = ssl.create_default_context()
            self._tls.minimum_version = ssl.TLSVersion.TLSv1_2

    async def send(self, delivery: Delivery) -> Outcome:
        """Make one attempt; whatever goes wrong is its outcome."""
        began = mono()
        try:
            async with asyncio.timeout(self._limit):
                status = await self._exchange(delivery)
        except TimeoutError:
            return Outcome(None, "timeout", _ms(began))
        except NotResolved:
            return Outcome(None, "dns", _ms(began))
        except KnockFailed as failure:
            return Outcome(None, failure.kind, _ms(began))
        except ssl.SSLError:
            return Outcome(None, "tls", _ms(began))
        except (OSError, asyncio.IncompleteReadError):
            return Outcome(None, "reset", _ms(began))
        except Exception:
            # A fault of this client must not keep the notices behind this one from being sent.
            log.exception("alert_attempt_broke")
            return Outcome(None, "internal", _ms(began))
        return outcome_of(status, _ms(began))

    async def _exchange(self, delivery: Delivery) -> int:
        """The status line decides; what follows the head is not read (WHK-050)."""
        reader, writer = await self._connect()
        try:
            body = delivery.body.encode()
            send(writer, self._head(delivery, len(body)) + body)
            await writer.drain()
            status, _ = await read_head(reader)
        finally:
            writer.transport.abort()
        return status

    def _head(self, delivery: Delivery, length: int) -> bytes:
        lines = (
            f"POST {self._target} HTTP/1.1",
            f"Host: {self.host}",
            "Content-Type: application/json; charset=utf-8",
            f"Content-Length: {length}",
            f"User-Agent: queue-manager-webhook/{VERSION}",
            "Accept-Encoding: identity",
            "Connection: close",
            f"X-QM-Delivery-Id: {delivery.id}",
            f"X-QM-Attempt: {delivery.attempts + 1}",
            *self._own_lines,
        )
        return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        tls: dict[str, Any] = {"ssl": self._tls, "server_hostname": self._name} if self._tls is not None else {}
        failure: Exception = OSError("no address")
        for address in (await resolve(self._name, self._port))[:ADDRESSES_TRIED]:
            try:
                return await asyncio.open_connection(address, self._port, limit=ANSWER_BYTES, **tls)
            except ssl.SSLError:
                raise
            except OSError as error:
                failure = error
        raise KnockFailed("connect") from failure


def _authorization(user: str | None, password: str | None) -> tuple[str, ...]:
    """The header for a user and password that are part of the address."""
    if user is None:
        return ()
    pair = f"{unquote(user)}:{unquote(password or '')}"
    return (f"Authorization: Basic {b64encode(pair.encode()).decode()}",)


def _ms(began: float) -> int:
    return round((mono() - began) * 1000)
