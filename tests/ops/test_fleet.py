"""Two instances beside each other: what each says of itself, of the other, and of what they share."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.chaos.builds import VERSION, PageLoads, next_build
from tests.harness import Server, await_value, troubles, wait_for
from tests.ops.fleet import Instance, Pair, pair
from tests.ops.prometheus import Prometheus
from tests.ops.scrape import scrape


@pytest.fixture(scope="module")
def two(private_stores) -> Iterator[Pair]:  # type: ignore[no-untyped-def]
    with pair(
        private_stores.valkey_url, private_stores.database_url, RESYNC_MS="1000", SHUTDOWN_GRACE_MS="1000"
    ) as made:
        wait_for(lambda: any(one.healthz().json()["leader"] for one in made.both()))
        yield made


@pytest.fixture(autouse=True)
def ways_open(two: Pair) -> Iterator[None]:
    """A test that fails leaves no way to a store cut for those after it."""
    yield
    for one in two.both():
        one.postgres.mend()
        one.valkey.mend()


def incidents(one: Instance, code: str) -> list[dict[str, object]]:
    return [incident for incident in one.health()["incidents"] if incident["code"] == code]


def agrees(one: Instance) -> None:
    """Both answers tell of the same incidents (OBS-005)."""

    def told() -> tuple[Any, ...]:
        public, full = one.healthz().json(), one.health()
        codes = list(dict.fromkeys(incident["code"] for incident in full["incidents"]))
        assert public["status"] == ("degraded" if public["degraded"] else "ok")
        assert full["status"] == ("degraded" if codes else "ok")
        assert full["degraded"] == codes
        return public["degraded"], codes

    wait_for(lambda: len(set(map(str, told()))) == 1)  # a moment lies between the two questions


PUBLIC_ORIGIN = "http://203.0.113.7:3000"
"""Of rooms that let nobody in: it is never connected to."""


def ask(one: Instance, host: str, *, page: bool = False) -> httpx.Response:
    """A request of a visitor of an inline host."""
    headers = {"Host": host, "Accept": "text/html" if page else "*/*"}
    return httpx.get(one.server.url + "/cart", headers=headers, timeout=10)


def await_watched(two: Pair, room: str) -> None:
    """Return when those who watch both instances, a process of their own in each, have heard of a room."""

    def told(one: Instance) -> set[object]:
        return {incident.get("roomId") for incident in incidents(one, "room_rebuilt")}

    key = f"{two.prefix}rebuilt"
    two.redis.hset(key, room, int(time.time() * 1000))
    wait_for(lambda: all(room in told(one) for one in two.both()))
    two.redis.hdel(key, room)
    wait_for(lambda: all(room not in told(one) for one in two.both()))


def is_well(one: Instance) -> bool:
    body = one.healthz().json()
    return bool(body["ready"] and not troubles(body) and body["storage"]["ok"])


@pytest.mark.req("FLT-043", "FLT-044", "OBS-076")
def test_each_lists_both(two: Pair) -> None:
    def seen(one: Instance) -> list[bool]:
        return sorted(member["leader"] for member in one.health()["fleet"]["members"])

    wait_for(lambda: all(seen(one) == [False, True] for one in two.both()))

    for one in two.both():
        fleet = one.health()["fleet"]
        assert (fleet["instances"], fleet["partial"]) == (2, False)
        members = {member["instance"]: member for member in fleet["members"]}
        assert set(members) == {"first", "second"}
        for member in members.values():
            assert set(member) == {
                "instance", "version", "kid", "startedAt", "ready", "storageOk", "leader", "seenAt",
            }  # fmt: skip
            assert (member["ready"], member["storageOk"]) == (True, True)
            assert member["kid"] == one.health()["keys"]["kid"]
        name = one.health()["instance"]
        assert scrape(one.server).value("qm_leader", instance=name) == members[name]["leader"]
    runs = list(two.redis.scan_iter(match=f"{two.prefix}ctr:*"))
    assert len(runs) == 2
    assert all(two.redis.hexists(run, "i") and 0 < two.redis.pttl(run) <= 15_000 for run in runs)


@pytest.mark.req("OBS-052", "OBS-053", "VIS-033")
def test_every_series_has_its_instance_and_rooms_are_alike(two: Pair) -> None:
    two.first.make_room("alike", ratePerMinute=0, queueMaxPerIp=100)
    for _ in range(3):
        assert two.first.join("alike").status_code == 200
    assert two.second.join("alike").status_code == 200
    rooms: list[dict[str, float]] = []
    for name, one in (("first", two.first), ("second", two.second)):
        found = scrape(one.server)
        assert {dict(labels).get("instance") for _, labels in found.samples} == {name}
        counted = found.value("qm_joins_total", room="alike", instance=name)
        assert counted == (3 if one is two.first else 1)
        rooms.append(
            {
                f"{series}{sorted(dict(labels).items() - {('instance', name)})}": value
                for (series, labels), value in found.samples.items()
                if series.startswith("qm_room_") and not series.endswith(("_seconds", "_total"))
            }
        )
    assert rooms[0] == rooms[1]
    assert rooms[0]["qm_room_waiting[('room', 'alike')]"] == 4


def frame(one: Instance, room: str) -> dict[str, Any]:
    """The card of a room in the next full frame of an instance's stream."""
    asked = httpx.post(one.server.url + "/api/admin/sse-ticket", headers=one.key, json={}, timeout=10)
    address = f"{one.server.url}/api/admin/events?ticket={asked.json()['ticket']}"
    with httpx.stream("GET", address, timeout=20) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                rooms = {shown["id"]: shown for shown in json.loads(line[6:])["rooms"]}
                return dict(rooms.get(room, {}))
    raise AssertionError("no frame")


@pytest.mark.req("CON-079")
def test_a_card_shows_the_sums_of_both(two: Pair) -> None:
    wait_for(lambda: all(map(is_well, two.both())))
    rules = [{"id": "r1", "action": "protect", "pattern": "/cart*", "note": ""}]
    two.first.make_room("summed", ratePerMinute=0, rules=rules, returnOrigins=["https://shop.example"])
    for one, times in ((two.first, 2), (two.second, 3)):
        for _ in range(times):
            wait_for(lambda one=one: one.join("summed").status_code == 200)  # type: ignore[misc]
            for page, origin in (
                ("https://shop.example/cart", "https://shop.example"), (None, "https://shop.example"),
                ("https://other.example/", "https://other.example"),
            ):  # fmt: skip
                asked = {"url": page} if page else {}
                address = f"{one.server.url}/api/check?room=summed"
                assert httpx.post(address, json=asked, headers={"Origin": origin}, timeout=10).status_code < 500

    def sums(one: Instance) -> list[Any]:
        shown = frame(one, "summed")
        if not shown:
            return []
        # Frames read the counts of rules and origins twice a minute; a question for the room reads them now.
        room = httpx.get(one.server.url + "/api/admin/rooms/summed", headers=one.key, timeout=10).json()["room"]
        counters = [room["rules"][0]["hits"], *(refused["count"] for refused in room["refusedOriginChecks"])]
        return [shown["waiting"], shown["joinsPerMin"], shown["lastTicket"], shown["checksWithoutUrl"], *counters]

    for one in two.both():
        wait_for(lambda one=one: sums(one) == [5, 5, 5, 5, 5, 5])  # type: ignore[misc]
    flushed = httpx.post(two.second.server.url + "/api/admin/rooms/summed/flush", headers=two.second.key, timeout=10)
    assert flushed.json()["flushed"] == 5

    def passed(one: Instance) -> list[Any]:
        shown = frame(one, "summed")
        return [shown["waiting"], shown["occupancy"], shown["passedLastMinute"]]

    for one in two.both():
        wait_for(lambda one=one: passed(one) == [0, 5, 5])  # type: ignore[misc]


@pytest.mark.req("OBS-108")
def test_prometheus_tells_the_instances_apart_by_their_own_label(two: Pair) -> None:
    two.first.make_room("watched", ratePerMinute=0, queueMaxPerIp=100)
    for one, joins in ((two.first, 2), (two.second, 1)):
        for _ in range(joins):
            assert one.join("watched").status_code == 200
    with Prometheus(two.first.server, two.second.server) as prometheus:
        wait_for(lambda: len(prometheus.ask('up{job="honest"} == 1')) == 2)
        wait_for(lambda: len(prometheus.ask('up{job="default"} == 1')) == 2)

        kept = prometheus.ask('qm_joins_total{job="honest",room="watched"}')
        moved = prometheus.ask('qm_joins_total{job="default",room="watched"}')
        summed = prometheus.ask('sum(qm_joins_total{job="honest",room="watched"})')
        waiting = prometheus.ask('max by (room) (qm_room_waiting{job="honest",room="watched"})')

    assert {labels["instance"]: value for labels, value in kept} == {"first": 2, "second": 1}
    assert {labels["exported_instance"]: value for labels, value in moved} == {"first": 2, "second": 1}
    assert [value for _, value in summed] == [3]
    assert [value for _, value in waiting] == [3]


@pytest.mark.req("OBS-039", "FLT-041", "FLT-042", "ADM-271")
def test_what_was_refused_is_summed_over_both(two: Pair) -> None:
    for one, checks in ((two.first, 2), (two.second, 3)):
        for _ in range(checks):
            assert httpx.get(f"{one.server.url}/api/check?room=chekout").status_code == 404

    def seen(one: Instance) -> tuple[int, int]:
        health = one.health()
        rooms = {room["roomId"]: room["count"] for room in health["checks"]["unknownRooms"]}
        return health["counters"]["unknownRoomChecks"], rooms.get("chekout", 0)

    for one in two.both():
        wait_for(lambda one=one: seen(one) == (5, 5))  # type: ignore[misc]
    two.first.make_room("watched-here", ratePerMinute=0)
    token = two.first.join("watched-here").json()["token"]
    with httpx.stream("GET", f"{two.first.server.url}/events?room=watched-here&token={token}", timeout=10):
        blocks = [one.health() for one in two.both()]
    assert [block["sse"]["visitors"] for block in blocks] == [1, 0]
    assert all({"maxTotal", "perIp"} <= set(block["sse"]) for block in blocks)
    assert all({"open", "max"} <= set(block["connections"]) for block in blocks)


@pytest.mark.req("FLT-136", "FLT-137", "FLT-139", "VIS-107")
def test_pages_of_two_builds_find_their_files_at_either_while_one_takes_the_place_of_the_other(
    two: Pair, tmp_path: Path
) -> None:
    """The next build starts, takes its part of the visitors, and leaves again: nobody misses a file or gets a 5xx."""
    two.first.make_room("rolling", ratePerMinute=0)
    wait_for(lambda: all(map(is_well, two.both())))
    env = {**two.first.server.env, "QM_INSTANCE_ID": "next", "DATA_DIR": str(tmp_path / "data"), "PORT": "0"}
    root = next_build(tmp_path / "build")
    rotation = [one.server.url for one in two.both()]
    loads = PageLoads(lambda: rotation, "/w/rolling")
    over = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(loads.run, lambda _: over.is_set())
        try:
            with Server(env=env, workers=1, root=root) as late:  # type: ignore[arg-type]
                late.admin_key = two.first.server.admin_key
                assert f" version={VERSION}" in late.line
                wait_for(lambda: httpx.get(late.url + "/healthz").status_code == 200)
                rotation.append(late.url)
                wait_for(lambda: loading.done() or are_all_everywhere(loads), 60)
                late.kill(signal.SIGTERM)
                wait_for(lambda: httpx_status(late.url) != 200)
                rotation.remove(late.url)
                assert late.wait() == 0
            seen = loads.pages
            wait_for(lambda: loading.done() or loads.pages > seen + 10)
        finally:
            over.set()
        loading.result()

    assert loads.strange == []
    assert set(loads.statuses) == {200}
    assert len(styles_of(loads)) == 2, "of both builds"
    first, second = (one.server.url for one in two.both())
    assert all({first, second} & seen for seen in loads.files.values()), (
        "either build's files at the old build's instances"
    )


def styles_of(loads: PageLoads) -> list[str]:
    return [path for path in [*loads.files] if path.endswith(".css")]


def are_all_everywhere(loads: PageLoads) -> bool:
    """Whether pages of both builds were loaded, and each file of theirs from each of three instances."""
    return len(styles_of(loads)) == 2 and all(len(seen) == 3 for seen in [*loads.files.values()])


def httpx_status(url: str) -> int:
    """Of a probe; 0 when nobody listens any more."""
    try:
        return httpx.get(url + "/healthz").status_code
    except httpx.TransportError:
        return 0


@pytest.mark.req("OBS-017", "OBS-018", "OBS-019", "OBS-023", "OBS-024")
def test_an_instance_whose_own_storage_fails_leaves_the_rotation_and_comes_back(two: Pair) -> None:
    wait_for(lambda: all(map(is_well, two.both())))
    two.first.postgres.cut()
    wait_for(lambda: two.first.healthz().status_code == 503)

    body = two.first.healthz().json()
    assert body["reasons"] == [{"code": "storage_degraded", "text": "storage is degraded on this instance only"}]
    assert (body["ready"], body["status"], body["storage"]) == (False, "degraded", {"ok": False})
    assert two.first.healthz().headers["retry-after"] == "5"
    assert two.second.healthz().status_code == 200
    errors, last = (two.first.health()["storage"][name] for name in ("writeErrors", "lastError"))
    assert last
    two.first.postgres.mend()
    wait_for(lambda: two.first.healthz().status_code == 200)  # nobody joins: its own probe is enough
    failed_at = two.first.health()["storage"]["lastErrorAt"]
    assert two.first.healthz().json()["storage"] == {"ok": False}, "a fault that was just there reads as failing"
    wait_for(lambda: is_well(two.first))
    assert time.time() * 1000 - failed_at >= 3000
    assert two.first.health()["storage"]["writeErrors"] >= errors


@pytest.mark.req("OBS-016", "OBS-005")
def test_a_shared_database_that_is_down_takes_nobody_out_of_rotation(two: Pair) -> None:
    wait_for(lambda: all(map(is_well, two.both())))
    two.first.make_room("shared")

    for one in two.both():
        one.postgres.cut()
    for one in two.both():
        refused = one.join("shared")
        assert (refused.status_code, refused.json()["code"]) == (503, "storage_unavailable")
    wait_for(lambda: all(not one.healthz().json()["storage"]["ok"] for one in two.both()))
    wait_for(lambda: sum(one.health()["storage"]["writeErrors"] for one in two.both()) > 0)
    until = time.monotonic() + 3.5  # more than two frames, and longer than an instance's good word counts
    while time.monotonic() < until:
        for one in two.both():
            answer = one.healthz()
            assert (answer.status_code, answer.json()["ready"], answer.json()["status"]) == (200, True, "degraded")
    for one in two.both():
        agrees(one)
        (incident,) = incidents(one, "storage_degraded")
        assert str(incident["text"]).startswith("storage is degraded: events journal commit failed: ")
        assert (incident["severity"], incident["roomId"]) == ("critical", None)
        assert one.health()["storage"]["lastError"] in str(incident["text"])
        assert one.health()["backend"]["postgres"] == "down"
        assert scrape(one.server).value("qm_storage_ok", instance=one.health()["instance"]) == 0
        one.postgres.mend()
    wait_for(lambda: all(map(is_well, two.both())))


@pytest.mark.req("ENG-002")
def test_whoever_asks_is_answered_though_nobody_told_that_the_room_was_changed(two: Pair) -> None:
    """The first request after a change finds the copy of the room old, whatever way it goes."""
    wait_for(lambda: all(map(is_well, two.both())))
    two.first.make_room("behind", ratePerMinute=0, queueMaxPerIp=None)
    url = two.first.server.url
    with httpx.Client(base_url=url, timeout=10) as visitor:
        token = visitor.post("/api/join", json={"roomId": "behind"}).json()["token"]
        poll, check = f"/api/status?room=behind&token={token}", f"/api/check?room=behind&token={token}"
        for number in range(3):
            for _ in range(3):  # what comes again byte for byte goes a shorter way
                assert (visitor.get(poll).status_code, visitor.get(check).status_code) == (200, 200)
            for path in (poll, check):
                two.change("behind", presence_sec=100 + number + len(path) % 7 * 10)
                assert visitor.get(path).status_code == 200
            two.change("behind", presence_sec=200 + number)
            assert httpx.post(url + "/api/join", json={"roomId": "behind"}, timeout=10).json()["ticket"] == number + 2
    assert "Cannot enter into task" not in two.first.server.stderr
    two.first.remove_room("behind")


@pytest.mark.req("OBS-008", "OBS-104", "FLT-089", "FLT-091", "INL-187", "INL-191", "INL-230")
def test_a_lost_room_is_told_of_by_number_to_strangers_and_by_name_to_operators(two: Pair) -> None:
    wait_for(lambda: all(map(is_well, two.both())))
    lost = {"targetUrl": "https://lost.test/", "proxyOrigin": PUBLIC_ORIGIN, "ratePerMinute": 0}
    two.first.make_room("lost", name="The lost one", **lost)
    for one in two.both():
        wait_for(lambda one=one: ask(one, "lost.test").json()["code"] == "queued")  # type: ignore[misc]
    two.first.make_room("found")
    await_watched(two, "lost")
    for one in two.both():
        one.postgres.cut()  # it cannot be rebuilt meanwhile
    two.lose("lost")

    await_value(lambda: [one.healthz().json()["backend"]["recoveringRooms"] for one in two.both()], [1, 1])
    for one in two.both():
        answer, health = one.healthz(), one.health()
        assert (answer.status_code, answer.json()["backend"]["ok"]) == (200, False)
        assert "room_recovering" in answer.json()["degraded"]
        assert "lost" not in answer.text
        assert health["backend"]["recoveringRoomIds"] == ["lost"]
        call, page = ask(one, "lost.test"), ask(one, "lost.test", page=True)
        assert (call.status_code, call.json()["code"]) == (503, "storage_unavailable")
        assert (page.status_code, 'http-equiv="refresh"' in page.text, "data-room" in page.text) == (503, True, False)
        (incident,) = incidents(one, "room_recovering")
        assert (incident["roomId"], incident["text"]) == ("lost", "The lost one is being rebuilt from the journal")
        one.postgres.mend()
    wait_for(lambda: all(not incidents(one, "room_recovering") for one in two.both()))
    for one in two.both():
        wait_for(lambda one=one: incidents(one, "room_rebuilt"))  # type: ignore[misc]
        (incident,) = incidents(one, "room_rebuilt")
        assert incident["roomId"] == "lost"
        assert "compare its state and rate" in str(incident["text"])
        assert ask(one, "lost.test").json()["code"] == "queued"
    two.redis.hset(f"{two.prefix}rebuilt", "lost", int(time.time() * 1000) - 3_601_000)
    wait_for(lambda: all(not incidents(one, "room_rebuilt") for one in two.both()))
    wait_for(lambda: all(map(is_well, two.both())))
    agrees(two.first)
    rebuilds = [sum(scrape(one.server).of("qm_room_rebuilds_total").values()) for one in two.both()]
    assert sum(rebuilds) == 1


@pytest.mark.req("OBS-005", "OBS-010", "OBS-032", "OBS-030", "FLT-065", "ADM-271")
def test_it_answers_about_itself_with_both_stores_away(two: Pair) -> None:
    wait_for(lambda: all(map(is_well, two.both())))
    one = two.second
    one.make_room("kept")
    wait_for(lambda: one.health()["rooms"]["count"] >= 1)
    one.valkey.cut()
    one.postgres.cut()
    wait_for(lambda: troubles(one.healthz().json()) == ["storage_degraded", "valkey_down"])
    assert one.healthz().json()["backend"] == {
        "store": "valkey", "valkey": "down", "recoveringRooms": 0, "ok": False, "valkeyEverConnected": True,
    }  # fmt: skip

    with httpx.Client(base_url=one.server.url) as client:
        client.get("/healthz")
        took = []
        for _ in range(20):
            began = time.monotonic()
            assert client.get("/healthz").json()["status"] == "degraded"
            took.append(time.monotonic() - began)
    assert min(took) < 0.1
    version = httpx.get(one.server.url + "/api/version")
    assert (version.status_code, troubles(version.json())) == (200, troubles(one.healthz().json()))
    agrees(one)
    health = one.health()
    assert health["rooms"]["stale"] is True
    assert health["fleet"]["stale"] is True
    assert health["fleet"]["partial"] is True
    assert {member["instance"] for member in health["fleet"]["members"]} == {"first", "second"}
    assert all(health[block]["stale"] for block in ("counters", "checks", "tokens", "protection", "backend"))
    assert health["rooms"]["count"] >= 1
    found = scrape(one.server)
    assert not any(series.startswith("qm_room_") and "rebuilds" not in series for series, _ in found.samples)
    assert found.value("qm_backend_up", instance="second") == 0
    one.valkey.mend()
    one.postgres.mend()
    wait_for(lambda: all(map(is_well, two.both())))


def gated(one: Instance) -> float:
    """What an instance itself has checked, of all inline rooms there are."""
    return sum(scrape(one.server).of("qm_proxy_gated_total").values())


@pytest.mark.req("INL-200", "INL-199", "INL-201")
def test_what_passed_the_gate_is_summed_over_both(two: Pair) -> None:
    wait_for(lambda: all(map(is_well, two.both())))
    two.first.make_room("gated", targetUrl="https://gated.test/", proxyOrigin=PUBLIC_ORIGIN, ratePerMinute=0)
    for one, requests in ((two.first, 2), (two.second, 3)):
        wait_for(lambda one=one: "gated.test" in one.health().get("inline", {}).get("hosts", []))  # type: ignore[misc]
        for _ in range(requests):
            assert ask(one, "gated.test").json()["code"] == "queued"

    both = gated(two.first) + gated(two.second)
    assert both >= 5
    for one, requests in ((two.first, 2), (two.second, 3)):
        wait_for(lambda one=one: one.health()["inline"]["gatedTotal"] == both)  # type: ignore[misc]
        name = one.health()["instance"]
        assert scrape(one.server).value("qm_proxy_gated_total", room="gated", instance=name) == requests
        assert one.health()["connections"]["open"] < 5, "connections are those of the answering instance"


@pytest.mark.req("OBS-002", "OBS-014", "OBS-184", "FLT-042", "INL-200", "CFG-192")
@pytest.mark.req("CFG-204")
def test_a_stop_is_told_before_anything_ends_and_the_other_counts_one_less_at_once(two: Pair) -> None:
    wait_for(lambda: all(map(is_well, two.both())))
    with httpx.Client(base_url=two.second.server.url) as kept:  # let in before the stop
        assert kept.get("/healthz").status_code == 200
        asked = httpx.post(two.second.server.url + "/api/admin/shutdown", headers=two.second.key, timeout=20)
        assert asked.json()["stopping"] is True
        wait_for(lambda: two.second.healthz().status_code == 503)
        body = kept.get("/healthz").json()
        assert (body["ready"], body["status"]) == (False, "shutting_down")
        assert [reason["code"] for reason in body["reasons"]] == ["shutting_down"]
        version = httpx.get(two.second.server.url + "/api/version")
        assert (version.status_code, version.json()["status"]) == (200, "shutting_down")
        assert scrape(two.second.server).value("qm_shutting_down", instance="second") == 1
    process = two.second.server.process
    assert process is not None
    assert process.stdout is not None
    assert process.stdout.read() == "", "stdout has the line 'listening' and nothing else"
    assert two.second.server.wait() == 0, two.second.server.stderr[-3000:]

    wait_for(lambda: is_well(two.first))
    assert "stop_begun" not in two.first.server.stderr
    assert [member["instance"] for member in two.first.health()["fleet"]["members"]] == ["first"]
    assert two.first.health()["counters"]["unknownRoomChecks"] == 2
    assert two.first.health()["inline"]["gatedTotal"] == gated(two.first)
    assert len(list(two.redis.scan_iter(match=f"{two.prefix}ctr:*"))) == 1


@pytest.mark.req("INL-074", "INL-187", "INL-191", "INL-193", "INL-194", "INL-195", "INL-202", "ENG-279", "OBS-185")
@pytest.mark.req("FLT-075", "FLT-076")
def test_it_knows_its_inline_hosts_by_whichever_store_answers_first(two: Pair) -> None:
    """After the test before, of which this is the second half: the instance that was stopped boots without stores."""
    late = two.second
    two.first.make_room("gone", targetUrl="https://gone.test/", proxyOrigin=PUBLIC_ORIGIN, ratePerMinute=0)
    assert httpx.delete(f"{two.first.server.url}/api/admin/rooms/gone", headers=two.first.key).status_code == 200
    late.valkey.cut()
    late.postgres.cut()
    said_before = len(late.server.stderr)

    def said(words: str) -> int:
        return late.server.stderr[said_before:].count(words)

    late.server.start()
    assert said("valkey: unreachable at boot") == 1
    wait_for(lambda: said("Valkey and Postgres are both unreachable") == 1)
    assert late.health()["inline"]["indexFrom"] == "none"
    assert late.health()["inline"]["hosts"] == []
    assert (ask(late, "gated.test").status_code, ask(late, "gated.test", page=True).status_code) == (404, 404)

    late.postgres.mend()
    wait_for(lambda: late.health()["inline"]["indexFrom"] == "postgres", 60)  # it tries ever later, up to each 30 s
    assert said("inline host index built from Postgres") == 1
    assert late.health()["inline"]["hosts"] == ["gated.test", "lost.test"], "without the room that was deleted"
    call, page = ask(late, "gated.test"), ask(late, "gated.test", page=True)
    assert (call.status_code, call.json()["code"], call.json()["roomId"]) == (503, "storage_unavailable", "gated")
    assert (page.status_code, 'http-equiv="refresh"' in page.text, "data-room" in page.text) == (503, True, False)
    assert ask(late, "gone.test").status_code == 404
    wait_for(lambda: bool(late.healthz().json()["ready"]))  # it is an outage of all, and no reason to leave rotation

    late.valkey.mend()
    wait_for(lambda: ask(late, "gated.test").json()["code"] == "queued")
    assert late.health()["inline"]["indexFrom"] == "valkey"
    assert said("Valkey and Postgres are both unreachable") == 1
