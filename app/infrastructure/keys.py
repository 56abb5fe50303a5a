"""The only place in Python that spells a Valkey key; lua/lib/keys.lua is its twin for derived names.

Every key of a room shares the hash tag ``{room}``, so one function call stays in one slot. Only the header key is
declared in calls; the library derives the rest inside the same tag (ADR on derived key names).
"""

from __future__ import annotations

from app.domain.layout import CHUNK


class RoomKeys:
    """Names of one room's keys. ``gen``-scoped names belong to one generation."""

    __slots__ = ("base", "header")

    def __init__(self, prefix: str, room: str) -> None:
        self.base = f"{prefix}{{{room}}}:"
        self.header = self.base + "m"

    @property
    def config(self) -> str:
        """Hash: field → JSON, plus ``salt``."""
        return self.base + "cfg"

    @property
    def outbox(self) -> str:
        """List of facts that are not yet acknowledged as committed."""
        return self.base + "l"

    @property
    def ring(self) -> str:
        """60 × 4 u32: joins, passes, paid passes, freed slots per second."""
        return self.base + "k"

    @property
    def garbage(self) -> str:
        """Hash: ended generation → next chunk to unlink."""
        return self.base + "gc"

    @property
    def verified(self) -> str:
        """String: the life of the Valkey in which this room was compared with its journal."""
        return self.base + "v"

    @property
    def refused_joins(self) -> str:
        """``line`` or ``memory``: why joins were refused for want of room; gone a minute after the last."""
        return self.base + "full"

    @property
    def late(self) -> str:
        """String: position at which the journal stands while many facts wait for it, and since when (ms)."""
        return self.base + "late"

    def tickets(self, gen: int, chunk: int) -> str:
        """String of CHUNK ticket records."""
        return f"{self.base}{gen}:t{chunk}"

    def doors(self, gen: int, chunk: int) -> str:
        """String of CHUNK door records."""
        return f"{self.base}{gen}:d{chunk}"

    def owners(self, gen: int) -> str:
        """Hash: first 8 bytes of the cookie digest → ticket number, or ``p`` and the number of a pre-queue place."""
        return f"{self.base}{gen}:o"

    def addresses(self, gen: int) -> str:
        """Hash: 8-byte address digest → waiting tickets."""
        return f"{self.base}{gen}:i"

    def networks(self, gen: int) -> str:
        """Hash: 4-byte digest of an IPv6 /48 → entries of net u16, waiting tickets u32, by net."""
        return f"{self.base}{gen}:in"

    def counting_on(self, gen: int, book: str = "i") -> str:
        """List of places that were left and go on counting: due ds u32, place 10. ``book``: i line, ip doors."""
        return f"{self.base}{gen}:v{book}"

    def leaves(self, gen: int, turn: int) -> str:
        """Hash: 8-byte address digest → when it left places, in the turn of ten minutes (0 or 1)."""
        return f"{self.base}{gen}:x{turn}"

    def slots(self, gen: int) -> str:
        """Hash: 8-byte address digest → slots."""
        return f"{self.base}{gen}:u"

    def top_slots(self, gen: int) -> str:
        """Sorted set: addresses with more than one slot, by their number."""
        return f"{self.base}{gen}:ut"

    def held_back(self, gen: int) -> str:
        """Set of holders at the door whose address is at its bound: address 8, ticket u32 big-endian."""
        return f"{self.base}{gen}:wb"

    def removed(self, gen: int) -> str:
        """Bitmap: bit n set = ticket n left the line before its turn."""
        return f"{self.base}{gen}:r"

    def ended(self, gen: int) -> str:
        """String of one u32 (ds) a chunk: when a ticket of it last ended."""
        return f"{self.base}{gen}:c"

    def passed_over(self, gen: int) -> str:
        """Set of chunks that were to be dropped while somebody in them still lived."""
        return f"{self.base}{gen}:fs"

    def deadlines(self, gen: int) -> str:
        """Sorted set: ticket number → ds at which a tick has to look at it."""
        return f"{self.base}{gen}:e"

    def flushes(self, gen: int) -> str:
        """List: flushes whose records have not all been written."""
        return f"{self.base}{gen}:fl"

    def purges(self, gen: int) -> str:
        """List: first and last number of the lines that were purged, the latest of them."""
        return f"{self.base}{gen}:pu"

    def froms(self, gen: int) -> str:
        """Hash: ticket number → further loose fingerprint of its owner (ENG-110)."""
        return f"{self.base}{gen}:f"

    def shared(self, gen: int) -> str:
        """Hash: ticket number → addresses that use its session, when they are not that of the join (ENG-298)."""
        return f"{self.base}{gen}:sa"

    def at_door(self, gen: int) -> str:
        """Sorted set: ticket number → ticket number of holders who stand at the door."""
        return f"{self.base}{gen}:w"

    def counts(self, gen: int) -> str:
        """Hash: what web workers count (lua/lib/tallies.lua)."""
        return f"{self.base}{gen}:n"

    def places(self, gen: int, chunk: int) -> str:
        """String of CHUNK place records of the pre-queue."""
        return f"{self.base}{gen}:h{chunk}"

    def handles(self, gen: int) -> str:
        """Hash: first 8 bytes of a handle → place."""
        return f"{self.base}{gen}:hx"

    def place_addresses(self, gen: int) -> str:
        """Hash: 8-byte address digest → places in the pre-queue."""
        return f"{self.base}{gen}:ip"

    def place_numbers(self, gen: int) -> str:
        """String of u32: the ticket of each place once it is drawn."""
        return f"{self.base}{gen}:pn"

    def pre_queue(self, gen: int) -> str:
        """String: state of the pre-queue and its draw (layout.PRE)."""
        return f"{self.base}{gen}:hm"

    def ring_of_ended(self, gen: int) -> str:
        """String: numbers (u32) of the last 50,000 tickets that are over, which keep their times."""
        return f"{self.base}{gen}:lp"

    def kept_times(self, gen: int) -> str:
        """Hash: number → times of those of them whose record was dropped."""
        return f"{self.base}{gen}:lt"

    def hour(self, gen: int) -> str:
        """String: what the room did in the running hour (domain/hour_record.py)."""
        return f"{self.base}{gen}:s"

    def chart(self, gen: int) -> str:
        """String: ring of the points of the room's chart (domain/chart.py)."""
        return f"{self.base}{gen}:ch"

    def wishes(self, gen: int) -> str:
        """Hash: holder → address, language, tries (infrastructure/wishes.py)."""
        return f"{self.base}{gen}:em"

    def wish_order(self, gen: int) -> str:
        """Sorted set: holder who waits for his first mail → ticket, 0 for a place without one."""
        return f"{self.base}{gen}:ez"

    def wish_retries(self, gen: int) -> str:
        """Sorted set: holder whose mail has not left → wall ms of the next try."""
        return f"{self.base}{gen}:er"

    def past_hours(self, gen: int) -> str:
        """Hash: hour → its record."""
        return f"{self.base}{gen}:sh"


def chunk_of(ticket: int) -> int:
    """Chunk that holds ``ticket``."""
    return (ticket - 1) // CHUNK


def rooms_key(prefix: str) -> str:
    """Set of ids of rooms that live here."""
    return prefix + "rooms"


def refused_key(prefix: str, room: str) -> str:
    """List of the times (ms) of the last refused visitor tokens of a room."""
    return f"{prefix}{{{room}}}:refused"


def refused_told_key(prefix: str, room: str) -> str:
    """Set while the log need not be told again that many tokens of a room are refused."""
    return f"{prefix}{{{room}}}:refused-told"


def libraries_key(prefix: str) -> str:
    """Sorted set: function library → ms by Valkey's clock at which an instance last said that it uses it."""
    return prefix + "libs"


def origins_key(prefix: str) -> str:
    """Hash of all rooms: ``<room> <origin>`` → checks refused for the origin of their page."""
    return prefix + "origins"


def origin_failures_key(prefix: str, bucket: int) -> str:
    """Hash of half a minute: room and class → failures of its origin (infrastructure/origin_failures.py)."""
    return f"{prefix}failed:{bucket}"


def pages_key(prefix: str) -> str:
    """Sorted set of all rooms: ``<room> <origin> <version of the tag>`` → ms of the last check."""
    return prefix + "pages"


def blanked_key(prefix: str) -> str:
    """Hash: ``<room> <generation>`` → position up to which the journal has no readable addresses any more."""
    return prefix + "blanked"


def poke_channel(prefix: str) -> str:
    """Channel on which a room that has a fact to journal is named."""
    return prefix + "poke"


def ack_channel(prefix: str) -> str:
    """Channel of commits: JSON with ``stored``, ``failed`` or ``reset`` (services/commit.py)."""
    return prefix + "ack"


def control_channel(prefix: str) -> str:
    """Channel of signals between processes: ``<verb> <room>`` (room, rebuild, draw, …)."""
    return prefix + "ctl"


def drain_lease(prefix: str, room: str) -> str:
    """Key of the drainer's lease on a room; economy only, nothing depends on it."""
    return f"{prefix}{{{room}}}:lease"


def leader_lease(prefix: str) -> str:
    """Key of the leader's lease: the name of the run of the instance that holds it."""
    return prefix + "leader:lease"


def leader_epoch(prefix: str) -> str:
    """Number of the leader's term (FLT-026, FLT-027)."""
    return prefix + "leader:epoch"


def inline_turn_key(prefix: str) -> str:
    """Held by the one save of an inline room that is being judged (INL-011)."""
    return prefix + "inline:turn"


def sites_key(prefix: str) -> str:
    """Hash: ``s`` and the address of a site → how it answers; ``k`` and the address → its latest knocks."""
    return prefix + "sites"


def blocks_told_key(prefix: str) -> str:
    """Hash: room id → generation, and newcomers refused in it that the timeline has told of."""
    return prefix + "blocks-told"


def autotune_key(prefix: str) -> str:
    """Hash: room id → the latest round of autotune."""
    return prefix + "autotune"


def chart_turn_key(prefix: str, turn: int) -> str:
    """Taken by the process that measures for the charts in this turn."""
    return f"{prefix}chart:{turn}"


def chart_sum_key(prefix: str) -> str:
    """String: ring of the sums of all rooms (domain/chart.py)."""
    return f"{prefix}chart:sum"


def counting_key(prefix: str) -> str:
    """Sorted set: run of an instance → ms at which it last wrote its counts."""
    return prefix + "ctr"


def counters_key(prefix: str, instance: str) -> str:
    """Hash: web worker → JSON of what it has counted; gone soon after the instance (FLT-041)."""
    return f"{prefix}ctr:{instance}"


def decisions_key(prefix: str) -> str:
    """List: the last decisions of bot protection, as JSON."""
    return prefix + "decisions"


def mail_address_keys(prefix: str, digest: str) -> tuple[str, str]:
    """Set of the places that an address stands with, and how many mails it got; both live an hour (VIS-230)."""
    return f"{prefix}mail:{{{digest}}}:places", f"{prefix}mail:{{{digest}}}:sent"


def mail_pace_key(prefix: str) -> str:
    """List: when the last 60 mails left this deployment (wall ms), the latest first."""
    return prefix + "mail:pace"


def page_file_keys(prefix: str) -> tuple[str, str]:
    """What page files of all builds begin with, and the sorted set of their names by when they were last handed out."""
    return prefix + "asset:", prefix + "assets"


def fleet_key(prefix: str) -> str:
    """Hash: run of an instance → what it last told of itself (infrastructure/fleet_records.py)."""
    return prefix + "fleet"


def storage_reports_key(prefix: str) -> str:
    """Hash: run of an instance → how its storage does (OBS-148)."""
    return prefix + "alerts:storage"


def rebuilt_key(prefix: str) -> str:
    """Hash: room → ms by the live store's clock at which it was last rebuilt from its journal."""
    return prefix + "rebuilt"


def journal_size_key(prefix: str) -> str:
    """JSON: bytes of the database, rows that the journal gets in an hour (OBS-194)."""
    return prefix + "journal:size"


def alerts_key(prefix: str) -> str:
    """Hash: ``a`` and the key of a trouble → its alert; ``n`` and an id → a notice on its way; ``r`` and a room → what
    is remembered of it; ``at`` → when somebody last looked (OBS-147). Deleted only together with the leader's epoch."""
    return prefix + "alerts:state"


def alert_log_key(prefix: str, run: str) -> str:
    """List of the last attempts at telling of alerts that a run of an instance made."""
    return f"{prefix}alerts:log:{run}"
