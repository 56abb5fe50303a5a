"""The leader's duties of process ``jobs``: done once per deployment, by whichever instance holds the lease."""

from __future__ import annotations

from app.core.clock import wall_ms
from app.domain.capacity import Declared
from app.infrastructure.address_guard import own_ports
from app.infrastructure.address_store import AddressStore
from app.infrastructure.alert_store import AlertLog, AlertStore
from app.infrastructure.block_counts import BlockCounts
from app.infrastructure.engine_admin import EngineAdmin
from app.infrastructure.engine_auto import EngineAuto
from app.infrastructure.engine_jobs import EngineJobs
from app.infrastructure.engine_lookup import EngineLookup
from app.infrastructure.fleet_records import FleetRecords
from app.infrastructure.hook_client import HookClient
from app.infrastructure.hour_store import HourStore, LiveHours
from app.infrastructure.knock import Knocker
from app.infrastructure.leader_lease import LeaderLease
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.mailer import Mailer
from app.infrastructure.notes_store import NotesStore
from app.infrastructure.room_directory import RoomDirectory
from app.infrastructure.seal_store import SealStore
from app.infrastructure.site_store import SiteStore
from app.infrastructure.wishes import WishStore
from app.services.activation import Activation
from app.services.alert_duty import AlertDuty
from app.services.alert_fleet import FleetSight
from app.services.alert_log import Attempts
from app.services.alert_sight import AlertSight, RoomSight
from app.services.audit_seals import AuditSeals
from app.services.block_marks import BlockMarks
from app.services.heavy_pauses import Rest
from app.services.hour_keeper import HourKeeper
from app.services.leadership import Duty, Leadership
from app.services.notes import audit_line
from app.services.notify import AddressDigest
from app.services.old_addresses import OldAddresses
from app.services.old_hours import OldHours
from app.services.old_marks import OldMarks
from app.services.prober import Prober
from app.services.sites import Sites
from app.services.tuner import Tuner
from app.services.turn_mails import TurnMails
from workers.runner import Background

GIVE_SEC = 0.1
"""What is left for giving back the lease once the last acts had their time."""


async def lead(background: Background, rooms: RoomDirectory, rest: Rest) -> None:
    """Take part in leading until the process is stopped; in a drill not at all (CFG-026).

    ``rest`` is awaited by duties that can wait.
    """
    if background.settings.drill:
        await background.stop.wait()
        return
    await _leadership(background, rooms, rest).run(background.stop)


def _leadership(background: Background, rooms: RoomDirectory, rest: Rest) -> Leadership:
    settings, runtime = background.settings, background.runtime
    prefix, loader = settings.valkey_prefix, LuaLoader(background.valkey)
    lease = LeaderLease(
        loader=loader,
        postgres=background.postgres,
        prefix=prefix,
        # One name for each run of an instance: its process that was started again goes on with the lease at once.
        holder=f"{runtime.instance_id} {runtime.rate_table_name}",
        lease_ms=settings.leader_lease_ms,
    )
    engine, sites = (
        EngineAuto(prefix, loader, instance=runtime.instance_id),
        SiteStore(background.valkey, prefix, loader),
    )
    hours = HourKeeper(rooms=rooms, live=LiveHours(prefix, loader), store=HourStore(background.postgres))
    duties: list[Duty] = [
        Activation(rooms=rooms, engine=engine),
        Prober(
            rooms=rooms,
            knocker=_knocker(background),
            store=sites,
            every_ms=settings.mesh_knock_ms,
            instance=runtime.instance_id,
        ),
        Tuner(rooms=rooms, engine=engine, store=sites, default=settings.autotune),
        OldMarks(NotesStore(background.postgres), rest),
        AuditSeals(SealStore(background.postgres, audit_line), now=wall_ms),
        BlockMarks(
            rooms=rooms,
            counts=BlockCounts(background.valkey, prefix, loader),
            notes=NotesStore(background.postgres),
        ),
        _alerts(background, rooms, loader, sites),
        OldHours(HourStore(background.postgres), days=settings.history_retain_days, rest=rest),
        hours,
    ]
    if settings.address_retain_days:
        addresses = AddressStore(background.postgres, background.valkey, prefix)
        duties.append(OldAddresses(addresses, days=settings.address_retain_days, rest=rest))
    duties.append(_mails(background, rooms, loader))
    return Leadership(
        lease,
        duties,
        lease_ms=settings.leader_lease_ms,
        show=runtime.leads_until.set,
        last_acts=[hours.keep_all],
        left=lambda: runtime.background_until.left() - GIVE_SEC,
    )


def _mails(background: Background, rooms: RoomDirectory, loader: LuaLoader) -> TurnMails:
    """Without a mail server too: addresses that were left while there was one end with their tickets."""
    settings, prefix = background.settings, background.settings.valkey_prefix
    mailer = None
    if settings.offers_mail and settings.smtp_url and settings.smtp_from:
        mailer = Mailer(settings.smtp_url.reveal(), settings.smtp_from)
    return TurnMails(
        rooms=rooms,
        jobs=EngineJobs(prefix, loader),
        lookup=EngineLookup(prefix, loader),
        store=WishStore(background.valkey, prefix),
        mailer=mailer,
        digest=AddressDigest(settings.secret),
        public_url=settings.public_url,
        book=background.book,
    )


def _alerts(background: Background, rooms: RoomDirectory, loader: LuaLoader, sites: SiteStore) -> AlertDuty:
    settings, valkey, prefix = background.settings, background.valkey, background.settings.valkey_prefix
    url = settings.alert_webhook_url
    return AlertDuty(
        sight=AlertSight(
            RoomSight(
                rooms=rooms,
                engine=EngineAdmin(valkey, prefix, loader),
                valkey=valkey,
                sites=Sites(sites, every_ms=settings.mesh_knock_ms, timeout_ms=settings.mesh_timeout_ms),
                settings=settings,
            ),
            FleetSight(
                FleetRecords(valkey, prefix, background.runtime.run_name),
                background.book,
                settings.alert_every_ms,
                Declared.of(settings, background.runtime.given),
            ),
        ),
        store=AlertStore(valkey, prefix, loader),
        client=None if url is None else HookClient(url),
        settings=settings,
        attempts=Attempts(AlertLog(valkey, prefix, background.runtime.run_name), background.book),
    )


def _knocker(background: Background) -> Knocker:
    settings, runtime = background.settings, background.runtime
    own = own_ports(runtime.valkey_url, runtime.database_url, settings.smtp_url.reveal() if settings.smtp_url else "")
    return Knocker(timeout_ms=settings.mesh_timeout_ms, allow_private=settings.proxy_allow_private, own=own)
