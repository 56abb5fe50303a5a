"""Recorded journals, one for each version of their format that was released, and making the one of today's.

``python -m tests.journal.recording`` plays a long history and writes ``recorded/lv<n>.json.gz`` for the present
``EVENT_LOG_VERSION``, or ``lv<n>-<m>.json.gz`` when there is one and a kind of fact was added since. Such a file is
written once and never again: what a release has written into somebody's Postgres does not change afterwards (FLT-101).
"""

from __future__ import annotations

import asyncio
import gzip
import json
import tempfile
from pathlib import Path
from typing import Any, Final

from app.core.ids import RoomId
from app.core.version import VERSION
from app.domain.facts import EVENT_LOG_VERSION, FactType
from app.domain.layout import DOOR_BYTES, DoorRecord, TicketRecord
from app.domain.ticket_state import TicketState, Why
from app.infrastructure.embedded import PrivateStores
from app.infrastructure.keys import RoomKeys
from app.infrastructure.migrate import migrate
from app.infrastructure.postgres import Postgres
from tests.journal.history import HISTORY, SHOP, Chance
from tests.journal.house import House

FOLDER: Final = Path(__file__).parent / "recorded"
ACTS: Final = 700
TABLES: Final = {
    "events": ("room", "gen", "seq", "type", "lv", "at", "ip", "body"),
    "room_heads": ("room", "gen", "epoch", "seq"),
    "rooms": ("room", "gen", "cfg_ver", "config", "salt", "created_at", "updated_at", "deleted_at"),
}


def recordings() -> dict[tuple[int, int], dict[str, Any]]:
    """Every recorded journal by its version and which one of it, oldest first."""
    found = {}
    for path in FOLDER.glob("lv*.json.gz"):
        recorded = json.loads(gzip.decompress(path.read_bytes()))
        _, _, number = path.name.removesuffix(".json.gz").partition("-")
        found[int(recorded["lv"]), int(number or 1)] = recorded
    return dict(sorted(found.items()))


def kinds_in(recorded: dict[str, Any]) -> set[FactType]:
    """Kinds of facts in a recorded journal."""
    return {FactType(row[3]) for row in recorded["tables"]["events"]}


async def put_back(postgres: Postgres, recorded: dict[str, Any]) -> None:
    """Write a recorded journal into empty tables."""
    for table, columns in TABLES.items():
        rows = [[_value(cell) for cell in row] for row in recorded["tables"][table]]
        places = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
        await postgres.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)


async def told(house: House, room: str) -> dict[str, Any]:
    """What a room's live state says of every ticket and of itself, in words that no layout of bytes changes."""
    header = await house.jobs.header(RoomId(room))
    assert header is not None
    copy = await house.read(room)
    tickets = await house.tickets(room)
    data = await house.valkey.execute("GET", RoomKeys(house.prefix, room).doors(int(header["gen"]), 0)) or b""
    padded = data.ljust(len(tickets) * DOOR_BYTES, b"\0")
    doors = [DoorRecord.unpack(padded[at * DOOR_BYTES : (at + 1) * DOOR_BYTES]) for at in range(len(tickets))]
    return {
        "config": {"rate": copy.config.rate_per_minute, "state": copy.config.state.word, "name": copy.config.name},
        "waiting": int(header["last_ticket"] - header["head"] - header["removed"]),
        "tickets": [_ticket(ticket, door) for ticket, door in zip(tickets, doors, strict=True)],
    }


def _ticket(ticket: TicketRecord, door: DoorRecord) -> list[Any]:
    state = TicketState(ticket.state).name.lower()
    prints = [ticket.cookie.hex(), ticket.strict.hex(), ticket.loose.hex(), ticket.addr.hex(), door.door.hex()]
    return [state, Why(ticket.why).name.lower(), ticket.joined_at, door.passed_at, door.admission_seq, *prints]


def _value(cell: Any) -> Any:
    """Bytes stand as ``{"hex": …}``."""
    return bytes.fromhex(cell["hex"]) if isinstance(cell, dict) else cell


def _cell(value: Any) -> Any:
    return {"hex": value.hex()} if isinstance(value, bytes) else value


async def _record(house: House) -> dict[str, Any]:
    await house.create("gone")
    await house.join("gone", 1)
    await house.admin.delete(RoomId("gone"), actor="ann")
    await house.drain("gone")
    await house.create("shop", **HISTORY)
    chance = Chance(house, 1)
    for _ in range(ACTS):
        await chance.act()
        await house.drain("shop")
    await house.lose_everything()
    assert await house.recovery.ensure(SHOP)
    tables = {
        table: [[_cell(value) for value in row] for row in await house.postgres.fetch(_select(table, columns))]
        for table, columns in TABLES.items()
    }
    return {"lv": EVENT_LOG_VERSION, "version": VERSION, "tables": tables, "told": await told(house, "shop")}


def _select(table: str, columns: tuple[str, ...]) -> str:
    return f"SELECT {', '.join(columns)} FROM {table} ORDER BY {', '.join(columns[:3])}"


async def _main() -> None:
    there = [(recorded, kinds_in(recorded)) for (lv, _), recorded in recordings().items() if lv == EVENT_LOG_VERSION]
    if there and there[-1][1] == set(FactType):
        raise SystemExit("every kind of fact is recorded: a released format is recorded once")
    path = FOLDER / f"lv{EVENT_LOG_VERSION}{f'-{len(there) + 1}' if there else ''}.json.gz"
    with tempfile.TemporaryDirectory() as folder:
        stores = PrivateStores(data_dir=Path(folder))
        stores.start()
        try:
            postgres = Postgres(stores.database_url)
            await migrate(postgres)
            await postgres.close()
            async with House(stores.valkey_url, stores.database_url, "record:") as house:
                recorded = await _record(house)
        finally:
            stores.stop()
    assert kinds_in(recorded) == set(FactType), f"not in the history: {set(FactType) - kinds_in(recorded)}"
    path.write_bytes(gzip.compress(json.dumps(recorded).encode(), mtime=0))


if __name__ == "__main__":
    asyncio.run(_main())
