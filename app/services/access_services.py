"""Who may do what: all of a web worker that judges credentials or changes who has them, wired once at its start."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from app.core.clock import wall_ms
from app.core.runtime import Runtime
from app.domain.actor import SYSTEM, Actor
from app.domain.keyring import Keyring
from app.infrastructure.access_store import AccessStore
from app.infrastructure.admin_store import AdminStore
from app.infrastructure.postgres import Postgres
from app.infrastructure.rate_limiter import RateLimiter
from app.infrastructure.valkey import Valkey
from app.services.access import Access
from app.services.audit_trail import AuditTrail
from app.services.holder_proof import HolderProofs
from app.services.lockout import Lockout
from app.services.monitor_links import MonitorLinks
from app.services.named_keys import NamedKeys
from app.services.operators import Operators
from app.services.people import People
from app.services.sessions import Sessions
from app.services.step_up import StepUps


@dataclass(frozen=True, slots=True, eq=False)
class AccessServices:
    """Credentials, those who hold them, and the trail of what they did."""

    access: Access
    sessions: Sessions
    step_ups: StepUps
    people: People
    operators: Operators
    monitor_links: MonitorLinks
    audit_trail: AuditTrail
    lockout: Lockout

    @classmethod
    def build(
        cls,
        *,
        runtime: Runtime,
        keyring: Keyring,
        limiter: RateLimiter,
        valkey: Valkey,
        postgres: Postgres,
        send_hint: Callable[[str, str], Awaitable[None]],
    ) -> AccessServices:
        """Wire it; opens nothing. ``send_hint``: tells every process of the deployment."""
        settings = runtime.settings
        store, records = AdminStore(valkey, settings.valkey_prefix), AccessStore(postgres)
        trail = AuditTrail(postgres)
        lockout = Lockout(store, limiter, limit=settings.admin_auth_fail_per_min, on_lock=_lock_noted(trail, runtime))
        people = People(
            records,
            resync_ms=settings.resync_ms,
            changes=limiter.counters,
            send_hint=send_hint,
            workers=settings.workers or 1,
        )
        named = NamedKeys(keyring=keyring, people=people, records=records, store=store, limiter=limiter, now=wall_ms)
        proofs = HolderProofs(keyring, settings.admin_key)
        sessions = Sessions(keyring=keyring, proofs=proofs, store=store, people=people, now=wall_ms)
        return cls(
            access=Access(
                admin_key=settings.admin_key,
                public_key=settings.public_api_key,
                named=named,
                sessions=sessions,
                lockout=lockout,
            ),
            sessions=sessions,
            step_ups=StepUps(store=store, people=people, proofs=proofs, now=wall_ms),
            people=people,
            operators=Operators(store=records, people=people, verifiers=named.verifiers, now=wall_ms),
            monitor_links=MonitorLinks(
                store=records, people=people, tokens=named.tokens, ttl_sec=settings.monitor_token_ttl_sec, now=wall_ms
            ),
            audit_trail=trail,
            lockout=lockout,
        )


def _lock_noted(trail: AuditTrail, runtime: Runtime) -> Callable[[str, int], None]:
    """What writes the start of a lock into the audit trail (ADM-057)."""
    server = Actor(SYSTEM, kind=SYSTEM, instance=runtime.instance_id)

    def note(address: str, failures: int) -> None:
        trail.note_soon(server, "auth.lockout", f"{address}: {failures} failed sign-ins in a minute")

    return note
