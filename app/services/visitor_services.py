"""Everything a web worker needs to answer visitors, wired once at its start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from app.core.settings import Settings
from app.domain.cookies import CookiePolicy
from app.domain.from_tokens import FromTokens
from app.domain.keyring import Keyring
from app.domain.tokens import VisitorTokens
from app.infrastructure.engine import Engine
from app.infrastructure.engine_admin import EngineAdmin
from app.infrastructure.rate_limiter import RateLimiter
from app.infrastructure.wishes import WishStore
from app.services.check import CheckService
from app.services.commit import CommitWaiter
from app.services.connector_keys import ConnectorKeys
from app.services.join import JoinService
from app.services.leave import LeaveService
from app.services.lockout import Lockout
from app.services.notify import AddressDigest, NotifyService
from app.services.protection import Protection
from app.services.status import StatusService
from app.services.stream_open import StreamOpener
from app.services.streams import Streams
from app.services.undeclared import UndeclaredPeers
from app.services.verify import VerifyService
from app.services.visitor_counts import VisitorCounts
from app.services.visitor_proof import Identifier
from app.services.visitor_room import Rooms, VisitorRooms
from app.services.visitor_tokens import TokenIssuer


@dataclass(frozen=True, slots=True)
class VisitorServices:
    """Use cases of the visitor's side. ``streams.stop()`` has to be awaited before the process ends."""

    rooms: VisitorRooms
    join: JoinService
    status: StatusService
    check: CheckService
    leave: LeaveService
    streams: Streams
    stream_opener: StreamOpener
    counts: VisitorCounts
    undeclared: UndeclaredPeers
    keys: ConnectorKeys
    verify: VerifyService
    notify: NotifyService | None
    """None: not offered (VIS-177)."""

    @classmethod
    def build(
        cls,
        *,
        settings: Settings,
        keyring: Keyring,
        engine: Engine,
        engine_admin: EngineAdmin,
        commits: CommitWaiter,
        rooms: Rooms,
        limiter: RateLimiter,
        counts: VisitorCounts,
        lockout: Lockout,
        wishes: WishStore | None = None,
    ) -> VisitorServices:
        """Wire the use cases; does nothing else."""
        cookies = CookiePolicy(settings.cookie_secure, settings.queue_cookie_max_age_sec)
        tokens = VisitorTokens(
            keyring, max_age_sec=settings.token_max_age_sec, cookie_max_age_sec=settings.queue_cookie_max_age_sec
        )
        found = VisitorRooms(rooms=rooms, cookies=cookies, public_url=settings.public_url)
        identifier = Identifier(engine=engine, tokens=tokens, counts=counts)
        issuer = TokenIssuer(tokens=tokens, identifier=identifier, cookies=cookies)
        known = _Known(engine=engine, rooms=found, identifier=identifier, issuer=issuer)
        acts = _Acts(engine_admin=engine_admin, commits=commits, counts=counts, froms=FromTokens(keyring))
        streams = Streams(engine=engine, rooms=found, issuer=issuer, refresh_after_ms=tokens.refresh_after_ms)
        return cls(
            rooms=found,
            join=JoinService(**known, **acts, protection=_protection(settings, limiter, counts)),
            status=StatusService(**known, tokens=tokens, commits=commits),
            check=CheckService(**known, **acts),
            leave=LeaveService(engine=engine, rooms=found, identifier=identifier),
            streams=streams,
            stream_opener=StreamOpener(
                **known, limiter=limiter, streams=streams,
                per_address=settings.sse_per_ip, in_all=settings.sse_max_total,
            ),
            counts=counts,
            undeclared=UndeclaredPeers(limiter, settings),
            keys=_keys(settings, lockout),
            verify=VerifyService(engine=engine, rooms=found),
            notify=_notify(settings, wishes, engine, found, identifier),
        )  # fmt: skip


class _Known(TypedDict):
    """What every use case about one visitor needs: the room, who he is, how he is answered."""

    engine: Engine
    rooms: VisitorRooms
    identifier: Identifier
    issuer: TokenIssuer


class _Acts(TypedDict):
    """What it takes to give a place or let somebody in."""

    engine_admin: EngineAdmin
    commits: CommitWaiter
    counts: VisitorCounts
    froms: FromTokens


def _protection(settings: Settings, limiter: RateLimiter, counts: VisitorCounts) -> Protection:
    return Protection(
        mode=settings.protection_mode,
        warn_at=settings.protection_warn_at,
        block_at=settings.protection_block_at,
        allowed=settings.protection_allow_ips,
        limiter=limiter,
        counts=counts,
    )


def _keys(settings: Settings, lockout: Lockout) -> ConnectorKeys:
    return ConnectorKeys(
        admin_key=settings.admin_key,
        public_key=settings.public_api_key,
        lockout=lockout,
        connectors=settings.connector_ips,
    )


def _notify(
    settings: Settings, wishes: WishStore | None, engine: Engine, rooms: VisitorRooms, identifier: Identifier
) -> NotifyService | None:
    if wishes is None or not settings.offers_mail:
        return None
    digest = AddressDigest(settings.secret)
    return NotifyService(engine=engine, rooms=rooms, identifier=identifier, store=wishes, digest=digest)
