"""Everything a web worker needs for inline rooms, wired once at its start."""

from __future__ import annotations

from dataclasses import dataclass

from app.core.runtime import Runtime
from app.core.settings import Settings
from app.domain.inline.forwarding import Hop
from app.infrastructure.address_guard import AddressGuard, own_ports
from app.infrastructure.origin_pool import OriginPool
from app.services.inline_counts import InlineCounts
from app.services.inline_gate import Directory, InlineGate
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

    @classmethod
    def build(
        cls, *, settings: Settings, guard: AddressGuard, directory: Directory, visitor: VisitorServices
    ) -> Inline:
        """Wire it; opens nothing."""
        pool = OriginPool(guard, timeout_sec=settings.proxy_timeout_ms / 1000)
        counts = InlineCounts()
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
            ),
            choice=OriginChoice(pool),
            counts=counts,
            hop=Hop.of(secrets, is_behind_edge=bool(settings.edge_secret)),
            pool=pool,
        )

    def close(self) -> None:
        """Close the connections to origins."""
        self.pool.close()
