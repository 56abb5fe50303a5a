"""Everything a web worker needs for inline rooms, wired once at its start."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from app.core.runtime import Runtime
from app.core.settings import ConfigWarning, Settings
from app.domain.inline.forwarding import Hop
from app.domain.inline.proxy_origin import is_private_literal
from app.infrastructure.address_guard import AddressGuard, own_ports
from app.infrastructure.engine_lookup import EngineLookup
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.origin_pool import OriginPool
from app.infrastructure.rate_limiter import RateLimiter
from app.infrastructure.room_directory import RoomDirectory
from app.infrastructure.valkey import Valkey
from app.services.inline_counts import InlineCounts, inline_block
from app.services.inline_gate import InlineGate
from app.services.inline_index import IndexFrom, IndexSource
from app.services.lasting import Lasting
from app.services.origin_choice import OriginChoice
from app.services.visitor_services import VisitorServices


def guard_of(runtime: Runtime, settings: Settings) -> AddressGuard:
    """Which addresses a room may lead to, by the settings (INL-029, INL-232)."""
    smtp = settings.smtp_url.reveal() if settings.smtp_url else ""
    own = own_ports(runtime.valkey_url, runtime.database_url, smtp)
    return AddressGuard(allow_private=settings.proxy_allow_private, own=own)


@dataclass(frozen=True, slots=True)
class Inline:
    """The gate and the way to the origins."""

    gate: InlineGate
    choice: OriginChoice
    counts: InlineCounts
    hop: Hop
    pool: OriginPool
    settings: Settings
    source: IndexSource
    lasting: Lasting

    @classmethod
    def build(
        cls,
        *,
        settings: Settings,
        guard: AddressGuard,
        directory: RoomDirectory,
        visitor: VisitorServices,
        limiter: RateLimiter,
        book: MetricBook,
        valkey: Valkey,
        lookup: EngineLookup,
    ) -> Inline:
        """Wire it; opens nothing."""
        pool = OriginPool(guard, timeout_sec=settings.proxy_timeout_ms / 1000, limiter=limiter)
        counts = InlineCounts(visitor.counts.inline, book, limiter.may_say)
        secrets = [settings.secret.reveal()]
        if settings.secret_previous:
            secrets.append(settings.secret_previous.reveal())
        return cls(
            gate=InlineGate(
                directory=directory,
                rooms=visitor.rooms,
                check=visitor.check,
                counts=counts,
                undeclared=visitor.undeclared,
                limiter=limiter,
            ),
            settings=settings,
            source=IndexSource(directory, valkey),
            lasting=Lasting(rooms=visitor.rooms, lookup=lookup),
            choice=OriginChoice(pool),
            counts=counts,
            hop=Hop.of(secrets, is_behind_edge=bool(settings.edge_secret)),
            pool=pool,
        )

    def tell_of_index(self) -> None:
        """Say when the hosts are known without Valkey, or not at all (INL-193, INL-195); called with each index."""
        self.source.tell(len(self.gate.index.hosts))

    def block(self, totals: Counter[str]) -> dict[str, Any] | None:
        """``inline`` of the health answer; None while no room is proxied. ``totals``: the fleet's counts."""
        hosts, source = self.gate.index.hosts, self.source.now
        if not hosts and source is not IndexFrom.NONE:
            return None
        return {
            "rooms": sum(len(host.rooms) for host in hosts.values()),
            "hosts": sorted(hosts),
            "indexFrom": source.value,
            **inline_block(totals),
        }

    def warnings(self) -> list[ConfigWarning]:
        """What is wrong with the settings for the rooms there are (INL-027, INL-040)."""
        hosts, settings = self.gate.index.hosts, self.settings
        found = []
        if hosts and not settings.admin_host and not settings.public_url:
            message = (
                "A room is inline and neither ADMIN_HOST nor PUBLIC_URL is set: on host names without a room the "
                "console answers 404. Set one of them to the console's name and restart."
            )
            found.append(ConfigWarning("console_host_withheld", "ADMIN_HOST", None, None, message))
        if not settings.proxy_allow_private:
            for host in hosts.values():
                if is_private_literal(host.origin):
                    message = (
                        f"Room {host.first.id} leads to an internal address, which is refused: every request to "
                        f"{host.name} gets an error. Set PROXY_ALLOW_PRIVATE=1 if the app is on your LAN."
                    )
                    found.append(ConfigWarning("private_origin", "PROXY_ALLOW_PRIVATE", None, False, message))
        return found

    async def close(self) -> None:
        """Close the connections to origins."""
        await self.lasting.stop()
        self.pool.close()
