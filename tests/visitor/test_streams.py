"""Live streams, up to the socket: when a frame is sent, who counts as present and as told."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from app.core.clock import mono
from app.core.errors import RateLimited, Unavailable
from app.core.ids import RoomId
from app.domain.layout import Flag
from app.domain.room import RoomState
from app.infrastructure.rate_limiter import RateLimiter
from app.services.stream_open import Opening
from app.services.streams import HEARTBEAT_SEC, MAX_UNSENT_BYTES, Stream
from blueprints.visitor.request_reading import visitor_of
from tests.journal.house import House, until
from tests.visitor.site import Browser, Site


@dataclass
class Reader:
    """The other end of a stream. ``pending``: bytes it has not taken."""

    frames: list[bytes] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    pending: int = 0
    is_over: bool = False
    is_lost: bool = False

    def write(self, frame: bytes) -> None:
        self.frames.append(frame)
        self.times.append(mono())

    def unsent(self) -> int:
        return self.pending

    def is_closed(self) -> bool:
        return self.is_over or self.is_lost

    def close(self) -> None:
        self.is_over = True

    @property
    def states(self) -> list[dict[str, Any]]:
        """The visitor states that were sent."""
        found = []
        for frame in self.frames:
            if frame.startswith(b"event: state\ndata: "):
                assert frame.endswith(b"\n\n")
                found.append(json.loads(frame.removeprefix(b"event: state\ndata: ")))
        return found


async def opened(browser: Browser, room: str = "shop", path: str = "/events") -> Opening:
    """What ``GET /events`` decides for this browser."""
    request = browser.request("GET", path)
    visitor = visitor_of(request, room, request.query.get("token"))
    return await browser.site.visitor.stream_opener.open(room, visitor, request.query.get("return"))


async def streamed(browser: Browser, room: str = "shop") -> tuple[Reader, Stream]:
    """An open stream of this browser; the opening's frame is the reader's first."""
    opening = await opened(browser, room)
    assert not opening.is_over
    reader = Reader([opening.first.removeprefix(b"retry: 2000\n\n")], [mono()])
    return reader, browser.site.visitor.stream_opener.start(opening, reader)


@pytest.mark.req("VIS-164")
async def test_it_begins_with_the_state_and_a_token_signed_anew(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    joined = (await browser.join()).json

    opening = await opened(browser)

    assert opening.first.startswith(b"retry: 2000\n\nevent: state\ndata: {")
    state = json.loads(opening.first.partition(b"data: ")[2])
    assert (state["state"], state["ticket"]) == ("waiting", joined["ticket"])
    ticket, session = (cookie.decode() for cookie in opening.cookies)
    assert ticket.startswith(f"qm_shop={state['token']};")
    assert session.startswith(f"qms_shop={browser.jar['qms_shop']};")


@pytest.mark.parametrize("cookie", ["", "qm_shop=x.y", "qms_shop=AAAA"])
async def test_it_consists_of_one_gone_frame_without_a_usable_token(site: Site, browser: Browser, cookie: str) -> None:
    await site.create()
    browser.headers["cookie"] = cookie

    opening = await opened(browser)

    state = json.loads(opening.first.partition(b"data: ")[2])
    assert opening.is_over
    assert opening.cookies == []
    assert state["state"] == "gone"
    assert state["reason"] == ("bad_token" if "qm_shop" in cookie else "new")
    assert "ticket" not in state


@pytest.mark.req("VIS-168", "ENG-140")
async def test_it_tells_a_pass_and_counts_its_holder_as_told(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    await browser.join()
    reader, stream = await streamed(browser)
    reader.pending = 1
    await site.update(rate_per_minute=600)

    async def is_shown() -> bool:
        await site.house.jobs.tick(RoomId("shop"))
        return reader.states[-1]["state"] == "passed"

    await until(is_shown)
    looked_at = stream.due
    await until(_turned(stream, looked_at))
    told_before = (await site.house.tickets("shop"))[0].flags & Flag.TOLD
    reader.pending = 0

    async def is_told() -> bool:
        return bool((await site.house.tickets("shop"))[0].flags & Flag.TOLD)

    await until(is_told)
    assert told_before == 0
    state = reader.states[-1]
    assert state["location"].startswith("https://shop.example/?qm_token=")
    assert len(reader.states) == 2


def _turned(stream: Stream, due: float) -> Any:
    """True once the stream was looked at again."""

    async def turned() -> bool:
        return stream.due != due

    return turned


@pytest.mark.req("VIS-165")
async def test_it_sends_a_frame_on_change_only_and_two_seconds_apart(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    others = [browser.twin(peer=f"198.51.100.{n}") for n in range(20, 26)]
    for other in others:
        await other.join()
    await browser.join()
    reader, _stream = await streamed(browser)

    for other in others[:3]:
        await other.send("POST", "/api/leave", {"roomId": "shop"})
    await until(_has_position(reader, 4))
    for other in others[3:]:
        await other.send("POST", "/api/leave", {"roomId": "shop"})
    await until(_has_position(reader, 1))
    await site.update(state=RoomState.PAUSED)
    await until(_has_state(reader, "paused"))

    gaps = [later - sooner for sooner, later in zip(reader.times, reader.times[1:], strict=False)]
    assert all(gap >= 2.0 for gap in gaps), gaps
    shown = [(state["state"], state["position"]) for state in reader.states]
    assert len(set(shown)) == len(shown)


def _has_position(reader: Reader, position: int) -> Any:
    async def has() -> bool:
        return bool(reader.states[-1]["position"] == position)

    return has


def _has_state(reader: Reader, state: str) -> Any:
    async def has() -> bool:
        return bool(reader.states[-1]["state"] == state)

    return has


@pytest.mark.req("VIS-167", "ENG-137")
async def test_it_keeps_its_holder_present_until_it_ends(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0, presence_sec=5)
    await browser.join()
    reader, _stream = await streamed(browser)
    first = (await site.house.tickets("shop"))[0].seen

    async def is_seen_later() -> bool:
        return (await site.house.tickets("shop"))[0].seen >= first + 30

    await until(is_seen_later)
    reader.is_lost = True

    async def is_forgotten() -> bool:
        return len(site.visitor.streams) == 0

    await until(is_forgotten)
    last = (await site.house.tickets("shop"))[0].seen
    other = browser.twin(peer="198.51.100.8")
    await other.join()
    joined = (await site.house.tickets("shop"))[1].seen
    await streamed(other)

    async def is_other_seen_later() -> bool:
        return (await site.house.tickets("shop"))[1].seen >= joined + 30

    await until(is_other_seen_later)
    assert (await site.house.tickets("shop"))[0].seen == last


@pytest.mark.req("VIS-174")
async def test_it_closes_a_reader_who_is_too_slow_and_goes_on_for_the_others(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    other = browser.twin(peer="198.51.100.8")
    await browser.join()
    await other.join()
    slow, _ = await streamed(browser)
    fast, _ = await streamed(other)
    slow.pending = MAX_UNSENT_BYTES + 1
    await site.update(state=RoomState.PAUSED)

    await until(_has_state(fast, "paused"))

    assert MAX_UNSENT_BYTES == 64 * 1024
    assert slow.is_over
    assert [state["state"] for state in slow.states] == ["waiting"]
    assert not fast.is_over


@pytest.mark.req("VIS-171")
async def test_it_closes_after_a_gone_frame(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    await browser.join()
    reader, _ = await streamed(browser)
    await site.house.admin.eject(RoomId("shop"), 1, actor="test")

    await until(_is_over(reader))

    assert reader.states[-1].items() >= {"state": "gone", "reason": "ejected", "rejoin": True}.items()


def _is_over(reader: Reader) -> Any:
    async def is_over() -> bool:
        return reader.is_over

    return is_over


@pytest.mark.req("VIS-170")
@pytest.mark.parametrize("recreated", [False, True])
async def test_it_ends_the_streams_of_a_room_that_is_no_more(site: Site, browser: Browser, recreated: bool) -> None:
    await site.create(rate_per_minute=0)
    await browser.join()
    reader, _ = await streamed(browser)
    await site.delete()
    if recreated:
        await site.recreate(rate_per_minute=0)
        await browser.twin(peer="203.0.113.1").join()

    await until(_is_over(reader))

    assert [state["state"] for state in reader.states] == ["waiting", "gone"]
    assert reader.states[-1]["reason"] == "stale_generation"


@pytest.mark.req("VIS-166")
@pytest.mark.req("FLT-133")
async def test_it_asks_the_page_to_come_again_before_its_token_is_old(site: Site, browser: Browser) -> None:
    site.visitor.streams._refresh_after_sec = 1.0
    await site.create(rate_per_minute=0)
    await browser.join()
    reader, _ = await streamed(browser)

    await until(_is_over(reader))

    assert reader.frames[-1] == b"event: refresh\ndata: {}\n\n"
    spread = [site.visitor.streams.refresh_in_sec("shop", (1, n)) for n in range(1, 1001)]
    assert min(spread) >= 1.0
    assert max(spread) <= 1.1
    assert len({round(value, 3) for value in spread}) > 50
    assert spread == [site.visitor.streams.refresh_in_sec("shop", (1, n)) for n in range(1, 1001)]


@pytest.mark.req("VIS-229")
async def test_it_keeps_six_streams_of_one_place(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    await browser.join()

    readers = [(await streamed(browser))[0] for _ in range(8)]

    assert [reader.is_over for reader in readers] == [True, True] + [False] * 6


@pytest.mark.req("VIS-165", "VIS-172", "FLT-063")
async def test_it_sends_only_heartbeats_while_the_room_cannot_be_read(
    site: Site, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.streams.HEARTBEAT_SEC", 1.0)
    await site.create(rate_per_minute=0)
    await browser.join()
    reader, _ = await streamed(browser)
    await site.update(state=RoomState.PAUSED)

    async def is_stored() -> bool:
        return bool(await site.house.postgres.fetchval("SELECT max(seq) = 3 FROM events WHERE room = 'shop'"))

    await until(is_stored)
    assert await site.house.jobs.fence(RoomId("shop"), 1, 1)
    reader.frames.clear()

    async def has_two_heartbeats() -> bool:
        return reader.frames.count(b": hb\n\n") >= 2

    await until(has_two_heartbeats)

    assert reader.states == [], "nothing is said of a place that cannot be read"
    assert not reader.is_over
    refused = await browser.status()
    assert (refused.status, refused.code) == (503, "storage_unavailable")
    with pytest.raises(Unavailable):
        await opened(browser)
    assert HEARTBEAT_SEC <= 13
    assert await site.house.recovery.ensure(RoomId("shop"))

    async def is_told() -> bool:
        return bool(reader.states and reader.states[-1]["state"] == "paused")

    await until(is_told)
    assert not reader.is_over


@pytest.mark.req("VIS-087", "VIS-088")
async def test_it_caps_streams_by_address_and_in_all(house: House, limiter: RateLimiter) -> None:
    site = Site(house, limiter, sse_per_ip=2, sse_max_total=3)
    opener = site.visitor.stream_opener
    clients = [Browser(site, peer=f"198.51.100.{n}").client({}) for n in range(3)]

    opener.enter(clients[0])
    opener.enter(clients[0])
    with pytest.raises(RateLimited) as by_address:
        opener.enter(clients[0])
    opener.enter(clients[1])
    with pytest.raises(Unavailable) as in_all:
        opener.enter(clients[2])
    opener.leave(clients[0])
    opener.enter(clients[2])

    assert (by_address.value.code, by_address.value.headers["Retry-After"]) == ("sse_limit", "30")
    assert (in_all.value.status, in_all.value.code) == (503, "sse_full")
    assert in_all.value.headers == {"Retry-After": "30", "X-QM-Queued": "1"}


async def test_it_closes_all_when_the_process_stops(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    await browser.join()
    reader, _ = await streamed(browser)

    await site.visitor.streams.stop()

    assert reader.is_over
    assert len(site.visitor.streams) == 0
