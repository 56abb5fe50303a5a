"""What an open stream promises over its whole life: pace, presence, ends, another instance, a dead reader."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from app.core.ids import RoomId
from app.infrastructure.rate_limiter import RateLimiter
from app.services import streams as module
from app.services.streams import FAR_GAP_SEC, HEARTBEAT_SEC, NEAR_GAP_SEC
from blueprints.sse import UNANSWERED_MS, ChunkSink
from tests.journal.house import House, newcomer, until
from tests.visitor.site import Browser, Site
from tests.visitor.test_streams import Reader, opened, streamed


@pytest.fixture
async def other(house: House, limiter: RateLimiter) -> AsyncIterator[Site]:
    """A second instance on the stores of ``site``."""
    made = Site(house, limiter)
    yield made
    await made.stop()


def over(*readers: Reader) -> Any:
    async def are_over() -> bool:
        return all(reader.is_over for reader in readers)

    return are_over


@pytest.mark.req("VIS-165")
async def test_it_tells_places_behind_the_thousandth_every_five_seconds_and_others_every_two(
    site: Site, browser: Browser
) -> None:
    await site.create(rate_per_minute=0, presence_sec=60)
    near = browser.twin(peer="203.0.113.9")
    await near.join()
    room = site.rooms.copies["shop"]
    await asyncio.gather(*(site.house.engine.join(room, newcomer(n)) for n in range(1000)))
    await browser.join()

    (_, far_stream), (_, near_stream) = await streamed(browser), await streamed(near)

    assert far_stream.ahead == 1001
    assert (near_stream.due - near_stream.frame_at, far_stream.due - far_stream.frame_at) == pytest.approx(
        (NEAR_GAP_SEC, FAR_GAP_SEC), abs=0.01
    )
    assert (NEAR_GAP_SEC, FAR_GAP_SEC) == (2.0, 5.0)


@pytest.mark.req("VIS-165")
async def test_every_frame_is_one_line_of_json_and_the_first_says_when_to_come_back(
    site: Site, browser: Browser
) -> None:
    name = 'Two\nlines " and\u2028more'
    await site.create(rate_per_minute=0)
    await site.update(name=name)
    await browser.join()
    reader, _ = await streamed(browser)
    first = (await opened(browser)).first

    await site.house.admin.eject(RoomId("shop"), 1, actor="test")
    await until(over(reader))

    assert first.startswith(b"retry: 2000\n\nevent: state\ndata: ")
    for frame in (first.removeprefix(b"retry: 2000\n\n"), *reader.frames):
        head, data, *rest = frame.decode().split("\n")
        assert (head, rest) == ("event: state", ["", ""])
        assert json.loads(data.removeprefix("data: "))["name"] == name


@pytest.mark.req("VIS-170")
@pytest.mark.parametrize("recreated", [False, True])
async def test_it_tells_the_end_of_a_room_before_the_next_turn_of_a_stream(
    site: Site, browser: Browser, recreated: bool
) -> None:
    await site.create(rate_per_minute=0)
    await browser.join()
    reader, stream = await streamed(browser)
    await site.delete()
    if recreated:
        await site.recreate(rate_per_minute=0)
        await browser.twin(peer="203.0.113.1").join()  # the same number in the new generation
    stream.due = stream.refresh_at = float("inf")  # its turn never comes
    site.rooms.copies.pop("shop")  # the hint of the deletion

    await until(over(reader))

    assert [state["state"] for state in reader.states] == ["waiting", "gone"]
    assert reader.states[-1]["reason"] == "stale_generation"
    assert module.SLICE_SEC <= 0.1


@pytest.mark.req("VIS-173")
@pytest.mark.req("FLT-132")
async def test_a_page_whose_stream_was_closed_by_a_stop_goes_on_at_another_instance(
    site: Site, other: Site, browser: Browser
) -> None:
    await site.create(rate_per_minute=0)
    joined = [browser.twin(peer=f"198.51.100.{n}") for n in range(1, 4)]
    for person in joined:
        await person.join()
    readers = [(await streamed(person))[0] for person in joined]

    await site.visitor.streams.stop()

    assert all(reader.is_over for reader in readers)
    await other.rooms.refresh(RoomId("shop"))
    for number, person in enumerate(joined, 1):
        person.site = other
        reader, _ = await streamed(person)
        assert reader.states[0].items() >= {"state": "waiting", "ticket": number, "position": number}.items()


@pytest.mark.req("VIS-167")
async def test_it_lets_the_absence_of_a_holder_begin_when_his_stream_ends(
    site: Site, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.create(rate_per_minute=0, presence_sec=5)
    await browser.join()
    reader, _ = await streamed(browser)
    before = (await site.house.tickets("shop"))[0].seen
    await site.advance(60)

    async def is_seen() -> bool:
        return (await site.house.tickets("shop"))[0].seen >= before + 600

    await until(is_seen)
    reader.is_lost = True

    async def is_forgotten() -> bool:
        return len(site.visitor.streams) == 0

    await until(is_forgotten)
    last = (await site.house.tickets("shop"))[0].seen
    await site.advance(60)
    room = site.rooms.copies["shop"]
    # A turn at which nobody is there: the pass goes to whoever is seen.
    there = browser.twin(peer="198.51.100.77")
    await there.join()
    await site.update(rate_per_minute=600)

    async def is_passed() -> bool:
        await site.house.jobs.tick(room.id)
        return bool((await there.status()).json["state"] == "passed")

    await until(is_passed)
    assert (await site.house.tickets("shop"))[0].seen == last


@pytest.mark.req("VIS-167")
async def test_it_has_the_kernel_give_up_a_reader_that_answers_nothing() -> None:
    async def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.set_result(writer)

    taken: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        _, client = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        writer = await taken
        connection = SimpleNamespace(transport=writer.transport, _time=0.0)

        ChunkSink(SimpleNamespace(stream=SimpleNamespace(protocol=connection)))  # type: ignore[arg-type]

        link = writer.transport.get_extra_info("socket")
        assert link.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == UNANSWERED_MS
        assert HEARTBEAT_SEC + UNANSWERED_MS / 1000 < 30
        for end in (client, writer):
            end.close()
            await end.wait_closed()
