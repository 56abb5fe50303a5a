"""A real Valkey Cluster of local processes: rooms spread over its nodes, one of which dies."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from redis.crc import key_slot

from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.infrastructure.engine_results import Verdict, ViewState
from app.infrastructure.postgres import Postgres
from app.infrastructure.store_checks import StoreRefused, check_valkey
from app.infrastructure.valkey_cluster import SLOTS, ValkeyCluster
from tests.chaos.stores import ValkeyServer, free_port
from tests.harness import Server, wait_for
from tests.journal.house import House, entry, holder, until
from tests.process.waiting import until_sync

ROOMS = [f"room{n}" for n in range(9)]


class Cluster:
    """Three primaries, and a replica of the first."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self.nodes = [stack.enter_context(_node()) for _ in range(4)]
        first, *others = self.nodes
        for other in others:
            first.ask("CLUSTER", "MEET", "127.0.0.1", other.port, other.bus)  # type: ignore[attr-defined]
        share = SLOTS // 3
        for number, node in enumerate(self.nodes[:3]):
            last = SLOTS - 1 if number == 2 else (number + 1) * share - 1
            node.ask("CLUSTER", "ADDSLOTSRANGE", number * share, last)
        name = first.ask("CLUSTER", "MYID")
        until_sync(lambda: all(node.ask("CLUSTER", "NODES").count(b"\n") == 4 for node in self.nodes))
        self.nodes[3].ask("CLUSTER", "REPLICATE", name)
        until_sync(lambda: all(b"cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in self.nodes))
        until_sync(lambda: self.nodes[3].ask("INFO", "replication")["master_link_status"] == "up")

    @property
    def url(self) -> str:
        return self.nodes[1].url

    def of(self, room: str, prefix: str) -> int:
        """Number of the primary that has a room at first."""
        return min(key_slot(f"{prefix}{{{room}}}:m".encode()) // (SLOTS // 3), 2)


def _node() -> ValkeyServer:
    bus = free_port()
    node = ValkeyServer(
        "--cluster-enabled", "yes", "--cluster-port", str(bus), "--cluster-node-timeout", "1500",
        "--appendonly", "no", "--cluster-replica-validity-factor", "0",
    )  # fmt: skip
    node.bus = bus  # type: ignore[attr-defined]
    return node


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with contextlib.ExitStack() as stack:
        yield Cluster(stack)


@pytest.fixture
async def house(cluster: Cluster, fresh_schema: str, postgres: Postgres) -> AsyncIterator[House]:
    """An instance on the cluster."""
    valkey = await ValkeyCluster.connect(cluster.url)
    async with House("", fresh_schema, "h:", valkey=valkey) as made:
        yield made


@pytest.mark.req("FLT-049", "CFG-032")
async def test_a_line_works_on_a_cluster_as_on_a_single_valkey(house: House, cluster: Cluster) -> None:
    await house.start_drainer()
    for room in ROOMS:
        await house.create(room, rate_per_minute=1)
        for who in range(3):
            assert await house.join_committed(room, who) is not None
    assert {cluster.of(room, "h:") for room in ROOMS} == {0, 1, 2}
    for answer in await house.jobs.tick_many([RoomId(room) for room in ROOMS]):
        assert not isinstance(answer, Exception)

    for room in ROOMS:
        copy = house.rooms[room]
        assert (await house.engine.check(copy, entry(0, 1))).verdict is Verdict.ADMITTED
        assert (await house.engine.status(copy, holder(2, 3))).state is ViewState.WAITING
    figures = await house.admin.figures([RoomId(room) for room in ROOMS])
    assert {found.active for found in figures.values()} == {1}

    for node in cluster.nodes[:3]:
        names = [name for name in node.ask("KEYS", "h:{*") if b"room" in name]
        assert names
        node.ask("FUNCTION", "FLUSH")
        for name in names:
            node.ask("UNLINK", name)
    assert await house.recovery.ensure_all() == len(ROOMS)
    for room in ROOMS:
        await house.read(room)
        assert (await house.engine.status(house.rooms[room], holder(2, 3))).state is ViewState.WAITING


@pytest.mark.req("FLT-049")
async def test_a_room_follows_its_slot_to_another_node(house: House, cluster: Cluster) -> None:
    room = next(f"moving{n}" for n in range(99) if cluster.of(f"moving{n}", "h:") == 1)
    await house.create(room)
    await house.join(room, "first")
    await house.drain(room)
    slot, target = key_slot(f"h:{{{room}}}:m".encode()), cluster.nodes[2].ask("CLUSTER", "MYID").decode()

    cluster.nodes[1].ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target)

    async def answers() -> bool:
        await house.recovery.ensure(RoomId(room))
        try:
            return (await house.engine.status(house.rooms[room], holder("first", 1))).state is ViewState.WAITING
        except StorageUnavailable:
            return False

    await until(lambda: has_key(cluster.nodes[2], f"h:{{{room}}}:m"))
    await until(answers)
    await house.start_drainer()
    assert await house.join_committed(room, "second") is not None


async def has_key(node: ValkeyServer, key: str) -> bool:
    names = await asyncio.to_thread(node.ask, "KEYS", "h:*")
    return key.encode() in names


@pytest.mark.req("CFG-032")
async def test_a_cluster_that_was_not_announced_is_refused(cluster: Cluster, valkey_url: str) -> None:
    with pytest.raises(StoreRefused, match="VALKEY_CLUSTER=1"):
        await check_valkey(cluster.url, 1)
    assert await check_valkey(cluster.url, 1, is_cluster=True) is None
    assert await check_valkey(valkey_url, 1, is_cluster=True) is None


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.req("FLT-049", "CFG-032")
def test_a_server_serves_the_other_rooms_while_a_node_is_dead_and_all_after_its_replica_took_over(
    cluster: Cluster, fresh_schema: str
) -> None:
    env: dict[str, str | None] = {
        "STORE": "valkey", "VALKEY_CLUSTER": "1", "VALKEY_URL": cluster.url, "DATABASE_URL": fresh_schema,
        "VALKEY_PREFIX": "s:", "RESYNC_MS": "1000",
    }  # fmt: skip
    lost = [room for room in ROOMS if cluster.of(room, "s:") == 0]
    kept = [room for room in ROOMS if cluster.of(room, "s:") != 0]
    with Server(env=env, workers=2) as server, contextlib.ExitStack() as stack:
        key = {"Authorization": f"Bearer {server.admin_key}"}
        visitors: dict[str, httpx.Client] = {}
        for room in ROOMS:
            body = {"id": room, "targetUrl": "https://shop.example/", "ratePerMinute": 0}
            assert httpx.post(f"{server.url}/api/admin/rooms", json=body, headers=key, timeout=20).status_code == 200
            visitors[room] = stack.enter_context(httpx.Client(base_url=server.url, timeout=20))
            assert visitors[room].post("/api/join", json={"roomId": room}).json()["ticket"] == 1

        def state(room: str) -> Any:
            answer = visitors[room].get(f"/api/status?room={room}")
            return answer.json().get("state") if answer.status_code == 200 else answer.status_code

        cluster.nodes[0].stop()
        assert {state(room) for room in kept} == {"waiting"}
        assert state(lost[0]) in (503, "waiting")
        wait_for(lambda: {state(room) for room in ROOMS} == {"waiting"}, 60)

        newcomer = stack.enter_context(httpx.Client(base_url=server.url, timeout=20))
        wait_for(lambda: newcomer.post("/api/join", json={"roomId": lost[0]}).json().get("ticket") == 2)
        assert server.stop() == 0
