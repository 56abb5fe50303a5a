"""Where refs are searched: here when there is little to search, else by the process for heavy work."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.core.errors import Unavailable
from app.domain.refs import ref_of
from app.domain.tokens import handle_text
from app.infrastructure.heavy_link import SOCKET_NAME, HeavyLink, bind_socket
from app.infrastructure.metric_book import MetricBook
from app.services.heavy_pauses import HeavyPauses
from app.services.heavy_turns import HeavyTurns
from app.services.heavy_works import HeavyWorks
from app.services.ref_index import TICKETS
from app.services.ref_search import NARROW, RefsElsewhere, RefsHere
from workers.heavy import HeavyDesk

GIVEN = [n.to_bytes(4, "big") * 4 for n in range(1, 2000)]


class Engine:
    """Handles of places of generation 3; a look is counted."""

    def __init__(self) -> None:
        self.looks = 0

    async def handles(self, room_id: str, chunk: int) -> tuple[int, list[bytes]]:
        self.looks += 1
        return 3, GIVEN[chunk * 1024 : chunk * 1024 + 1024]


class Both:
    """The asking and the answering side."""

    def __init__(self, folder: str) -> None:
        self.near, self.far = Engine(), Engine()
        nobody: Any = None
        engines: list[Any] = [self.near, self.far]
        self.elsewhere = RefsElsewhere(HeavyLink(f"{folder}/{SOCKET_NAME}"), RefsHere(engines[0]))
        works = HeavyWorks(notes=nobody, reports=nobody, history=nobody, refs=RefsHere(engines[1]), look_again=nobody)
        background: Any = SimpleNamespace(book=MetricBook.alone())
        self.turns = HeavyTurns(background.book)
        self.desk = HeavyDesk(works, self.turns, HeavyPauses(lambda: False), background)


@pytest.fixture
async def both() -> AsyncIterator[Both]:
    with tempfile.TemporaryDirectory(prefix="qm-t-") as folder:
        both = Both(folder)
        server = await asyncio.start_unix_server(both.desk.serve, sock=bind_socket(Path(folder)))
        yield both
        server.close()
        await both.desk.end(at_once=True)
        await asyncio.sleep(0.01)


@pytest.mark.req("OBS-188")
async def test_it_finds_the_same_wherever_it_searches(both: Both) -> None:
    refs = both.elsewhere
    for last in (NARROW, NARROW + 1, TICKETS):
        assert await refs.tickets("shop", 1, ref_of("shop", 1, NARROW), last) == [NARROW]
    assert await refs.tickets("shop", 1, ref_of("shop", 1, TICKETS), 2 * TICKETS) == [TICKETS]
    assert await refs.tickets("shop", 1, ref_of("shop", 1, TICKETS + 1), 2 * TICKETS) == []
    behind = ref_of("shop", 1, TICKETS + 700)
    assert await refs.beyond("shop", 1, behind, TICKETS) == []
    assert await refs.beyond("shop", 1, behind, TICKETS + 1000) == [TICKETS + 700]
    place = ref_of("shop", 3, handle_text(GIVEN[299]))
    assert await refs.places("shop", 3, place, 0) == []
    assert await refs.places("shop", 3, place, NARROW) == [300]
    assert both.far.looks == 0
    assert await refs.places("shop", 3, place, NARROW + 1) == [300]
    assert both.far.looks > 0
    assert await refs.places("shop", 2, place, NARROW + 1) == [], "the room was made anew"


@pytest.mark.req("OBS-188")
async def test_it_needs_the_other_process_for_much_alone_and_no_turn_there(both: Both) -> None:
    async with both.turns.place("audit_csv"):
        assert await both.elsewhere.tickets("shop", 1, ref_of("shop", 1, 900), 1000) == [900]
    nobody = RefsElsewhere(HeavyLink("/nonexistent/heavy.sock"), both.elsewhere._here)
    assert await nobody.tickets("shop", 1, ref_of("shop", 1, 5), NARROW) == [5]
    for search in (nobody.tickets, nobody.places):
        with pytest.raises(Unavailable):
            await search("shop", 1, "K7Q2MX", NARROW + 1)
    with pytest.raises(Unavailable):
        await nobody.beyond("shop", 1, "K7Q2MX", TICKETS + 1)
