"""What a room is in the live store, read key by key, and the same without what is fresh after a rebuild."""

from __future__ import annotations

import struct
from typing import Any

from app.domain.layout import (
    CHUNK,
    DOOR_BYTES,
    PLACE_BYTES,
    PRE,
    TICKET_BYTES,
    DoorRecord,
    Flag,
    PlaceRecord,
    TicketRecord,
    unpack_header,
)
from app.domain.ticket_state import TicketState
from app.infrastructure.keys import RoomKeys
from app.infrastructure.valkey import Valkey

FRESH_HEADER = {
    *("epoch", "last_time", "mono", "wall", "offset", "credit", "last_tick", "freed_at", "second", "line_since"),
    *("head", "removed", "committed", "rescore", "auto_since", "hour_end"),
    *(f"{span}_{what}" for span in ("now", "min") for what in ("joins", "passes", "paid", "freed")),
}
"""Clocks, counters and credit. Head and removed differ when tickets behind the head left: their sum does not."""

LEADER = b"mark_leader".hex()
"""Noted by every look of a leader, journaled with his decisions only."""


async def snapshot(valkey: Valkey, prefix: str, room: str, gen: int = 1) -> dict[str, Any]:
    """Header, configuration, records and indexes of a room; digests as hex."""
    keys = RoomKeys(prefix, room)
    header = unpack_header(await valkey.execute("GET", keys.header))
    last = int(header["last_ticket"])
    tickets = await _records(valkey, keys.tickets, gen, last, TICKET_BYTES)
    doors = await _records(valkey, keys.doors, gen, last, DOOR_BYTES)
    owners = await _hash(valkey, keys.owners(gen))
    froms = await _hash(valkey, keys.froms(gen))
    addresses = await _hash(valkey, keys.addresses(gen))
    networks = await _hash(valkey, keys.networks(gen))
    due = await valkey.execute("ZRANGE", keys.deadlines(gen), 0, -1)
    records = [TicketRecord.unpack(data) for data in tickets]
    return {
        "header": header,
        "cfg": await _hash(valkey, keys.config),
        "tickets": records,
        "doors": [DoorRecord.unpack(data) for data in doors],
        "owners": owners,
        "froms": froms,
        "addresses": addresses,
        "networks": networks,
        "slots": await _hash(valkey, keys.slots(gen)),
        "counting_on": [await valkey.execute("LRANGE", keys.counting_on(gen, b), 0, -1) for b in ("i", "ip")],
        "leaves": await _leaves(valkey, keys, gen, int(header["mono"])),
        "leaves_from": int(header["mono"]) // 10_000 - 60,
        "top": await valkey.execute("ZRANGE", keys.top_slots(gen), 0, -1, "WITHSCORES"),
        "waiting": [
            n
            for n, record in enumerate(records, 1)
            if record.state == TicketState.WAITING and n > header["purge_up_to"]
        ],
        "due": sorted(int(n) for n in due),
        "ring": sorted(
            n for (n,) in struct.iter_unpack("<I", await valkey.execute("GET", keys.ring_of_ended(gen)) or b"")
        ),
        **await _pre_queue(valkey, keys, gen, int(header["places"])),
    }


def without_fresh(shot: dict[str, Any]) -> dict[str, Any]:
    """The same without presence, told marks, standing at the door, last use, clocks and counters (ENG-271)."""
    header = shot["header"]
    lasting = {name: value for name, value in header.items() if name not in FRESH_HEADER}
    lasting["waiting"] = header["last_ticket"] - header["head"] - header["removed"]
    return {
        **shot,
        "header": lasting,
        "cfg": {name: value for name, value in shot["cfg"].items() if name != LEADER},
        "tickets": [record._replace(seen=0, flags=_journaled(record.flags)) for record in shot["tickets"]],
        "places": [place._replace(ticket=place.ticket._replace(seen=0)) for place in shot.get("places", [])],
        "doors": [record._replace(used_at=0, before=_journaled(record.before)) for record in shot["doors"]],
    }


def assert_alike(before: dict[str, Any], after: dict[str, Any], where: str = "") -> None:
    """Both, ``without_fresh``, are the same room. Some ms lie between them: leaves count that count in both."""
    oldest = max(before["leaves_from"], after["leaves_from"])
    for part, value in before.items():
        if part == "leaves":
            live, rebuilt = (_since(oldest, shot["leaves"]) for shot in (before, after))
            assert rebuilt == live, f"{where}: {part}: live {live}, rebuilt {rebuilt}"
        elif part != "leaves_from":
            assert after[part] == value, f"{where}: {part}: live {value}, rebuilt {after[part]}"


def _since(oldest: int, leaves: dict[str, list[tuple[int, int]]]) -> dict[str, list[tuple[int, int]]]:
    kept = {address: [entry for entry in entries if entry[0] >= oldest] for address, entries in leaves.items()}
    return {address: entries for address, entries in kept.items() if entries}


def _journaled(flags: int) -> int:
    """Flags without the told mark, and without standing at the door for a slot, which is no fact."""
    flags &= ~Flag.TOLD
    return flags if flags & Flag.SLOT else flags & ~Flag.AT_DOOR


async def _pre_queue(valkey: Valkey, keys: RoomKeys, gen: int, last: int) -> dict[str, Any]:
    """Places of the pre-queue, their indexes and the state of the draw."""
    state = await valkey.execute("GET", keys.pre_queue(gen)) or bytes(PRE.size)
    *numbers, _, seed = PRE.unpack(state)  # a draw that was journaled waits for nothing
    return {
        "places": [PlaceRecord.unpack(data) for data in await _records(valkey, keys.places, gen, last, PLACE_BYTES)],
        "handles": await _hash(valkey, keys.handles(gen)),
        "place_addresses": await _hash(valkey, keys.place_addresses(gen)),
        "place_networks": await _hash(valkey, keys.place_addresses(gen) + "n"),
        "place_numbers": await valkey.execute("GET", keys.place_numbers(gen)) or b"",
        "pre_queue": (numbers, seed),
    }


async def _records(valkey: Valkey, name: Any, gen: int, last: int, size: int) -> list[bytes]:
    data = b""
    for chunk in range((last + CHUNK - 1) // CHUNK):
        data += (await valkey.execute("GET", name(gen, chunk)) or b"").ljust(CHUNK * size, b"\0")
    return [data[at : at + size] for at in range(0, last * size, size)]


async def _leaves(valkey: Valkey, keys: RoomKeys, gen: int, mono: int) -> dict[str, list[tuple[int, int]]]:
    """Address → slots of ten seconds within ten minutes in which it left places, and how many."""
    found: dict[str, list[tuple[int, int]]] = {}
    turn, slot = mono // 600_000, mono // 10_000
    for one in (turn - 1, turn):
        lists = await _hash(valkey, keys.leaves(gen, one % 2))
        if int(lists.pop("", b"-1")) == one:
            for address, data in lists.items():
                found[address] = [entry for entry in struct.iter_unpack("<II", data) if entry[0] >= slot - 60]
    return {address: entries for address, entries in found.items() if entries}


async def _hash(valkey: Valkey, key: str) -> dict[str, bytes]:
    found: Any = await valkey.execute("HGETALL", key)
    pairs = found.items() if isinstance(found, dict) else zip(found[::2], found[1::2], strict=True)
    return {name.hex(): value for name, value in pairs}
