"""One process' view of the credentials, without a web server and with a clock that a test sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from app.core.errors import QmError
from app.core.secret import Secret
from app.domain.actor import Actor
from app.domain.client_address import Client
from app.domain.keyring import Keyring
from app.infrastructure.access_store import AccessStore
from app.infrastructure.admin_store import AdminStore
from app.infrastructure.postgres import Postgres
from app.infrastructure.rate_limiter import RateLimiter
from app.infrastructure.valkey import Valkey
from app.services.access import Access, Brought
from app.services.holder_proof import HolderProofs
from app.services.lockout import Lockout
from app.services.monitor_links import MonitorLinks
from app.services.named_keys import NamedKeys
from app.services.operators import Operators
from app.services.people import People
from app.services.sessions import Sessions
from app.services.step_up import StepUps

KEY = "correct-horse-battery-staple"
PUBLIC = "public-key-of-this-deployment"
NOW = 1_790_000_000_000
OWNER = Actor("ADMIN_KEY", kind="admin_key", role="owner", ip="192.0.2.1", instance="i:test")


def client_at(address: str) -> Client:
    packed = bytes(12) + bytes(map(int, address.split(".")))
    return Client(address, packed, packed[12:], address, "", False, "http", "qm.example")


def brought(
    authorization: str | None = None,
    *,
    cookies: tuple[str, ...] = (),
    in_query: str = "",
    ticket: str | None = None,
    is_foreign: bool = False,
    at: str = "192.0.2.1",
) -> Brought:
    return Brought(client_at(at), authorization, cookies, in_query, ticket, is_foreign)


@dataclass
class Desk:
    """A process of a deployment. ``limiter``: the memory that the workers of its instance share."""

    valkey: Valkey
    postgres: Postgres
    prefix: str
    limiter: RateLimiter
    limit: int = 20
    secret: str = "s" * 32
    previous: str | None = None
    admin_key: str = KEY
    sign_v2: bool = False
    resync_ms: int = 5000
    clock: list[int] = field(default_factory=lambda: [NOW])
    hears: list[Desk] = field(default_factory=list)
    """Processes that its hints reach."""

    def __post_init__(self) -> None:
        store = self.store = AdminStore(self.valkey, self.prefix)
        self.records = AccessStore(self.postgres)
        keyring = Keyring(self.secret, self.previous, sign_v2=self.sign_v2)
        admin_key = Secret(self.admin_key)
        self.keyring = keyring
        self.people = People(
            self.records, resync_ms=self.resync_ms, changes=self.limiter.counters, send_hint=self._hint, now=self.now
        )
        self.named = NamedKeys(
            keyring=keyring, people=self.people, records=self.records, store=store, limiter=self.limiter, now=self.now
        )
        proofs = HolderProofs(keyring, admin_key)
        self.sessions = Sessions(keyring=keyring, proofs=proofs, store=store, people=self.people, now=self.now)
        self.step_ups = StepUps(store=store, people=self.people, proofs=proofs, now=self.now)
        self.access = Access(
            admin_key=admin_key,
            public_key=Secret(PUBLIC),
            named=self.named,
            sessions=self.sessions,
            lockout=Lockout(store, self.limiter, limit=self.limit),
        )
        self.operators = Operators(store=self.records, people=self.people, verifiers=self.named.verifiers, now=self.now)
        self.links = MonitorLinks(
            store=self.records, people=self.people, tokens=self.named.tokens, ttl_sec=3600, now=self.now
        )

    def now(self) -> int:
        return self.clock[0]

    async def _hint(self, kind: str, text: str) -> None:
        for other in self.hears:
            await other.people.hear()

    def another(self, **changes: object) -> Desk:
        """Another process of the same deployment."""
        own = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "hears"}
        return Desk(**{**own, **changes})  # type: ignore[arg-type]

    async def outcome(self, what: Brought) -> str:
        """``ok`` or the code of the refusal."""
        try:
            await self.access.authenticate(what)
        except QmError as error:
            return error.code
        return "ok"

    async def may(self, key: str, **more: Any) -> str:
        """``outcome`` of a request with this Bearer key."""
        return await self.outcome(brought(f"Bearer {key}", **more))

    async def cookie(self, key: str = "") -> str:
        """A session of whoever holds ``key``, ADMIN_KEY by default."""
        holder = await self.access.sign_in(client_at("192.0.2.1"), key or self.admin_key)
        return (await self.sessions.begin(holder))[0]

    async def operator(self, role: str = "operator", name: str = "Night ops") -> tuple[str, str]:
        """Id and key of a new operator."""
        made, key = await self.operators.create({"name": name, "role": role}, OWNER)
        return made["id"], key
