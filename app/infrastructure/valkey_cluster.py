"""Valkey as a cluster: each command goes to the primary that serves its key, over that node's own shared connection.

Everything of a room lies in one slot, so a call of the engine is one command to one node, as with a single Valkey.
Belongs here: which node serves which slot, and following it when that changes. Not here: connections and their loss
(valkey.py).
Sources: Valkey manual, "Cluster specification", CLUSTER SLOTS.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import structlog
from redis import exceptions as wrong
from redis.crc import key_slot

from app.core.errors import StorageUnavailable
from app.infrastructure.store_trouble import Trouble
from app.infrastructure.valkey import Command, Hook, Listener, MessageHandler, Valkey, make_client

log = structlog.get_logger(__name__)

SLOTS: Final = 16_384
LOOK_SEC: Final = 1.0
"""How often the map is read while a node is away or nothing is known."""
CALM_SEC: Final = 30.0
"""How often it is read while all is well; a node that serves a slot no more says so itself."""
_KEYLESS: Final = frozenset({"PING", "TIME", "INFO", "PUBLISH", "CLUSTER"})
_WITH_NUMKEYS: Final = frozenset({"FCALL", "FCALL_RO", "EVAL", "EVALSHA"})
_ALREADY: Final = ("already exists", "not found")

Address = tuple[str, int]


class ValkeyCluster(Valkey):
    """The adapter of one process; as ``Valkey``, whose place it takes.

    A slot whose primary is away refuses at once, the others go on. A command whose slot has moved is sent to the new
    node: the old one has not run it.
    """

    def __init__(self, url: str, *, timeout_ms: int = 1000) -> None:
        """``url``: of one node that is asked first, with the credentials for all."""
        self._seed = url
        self._timeout_ms = timeout_ms
        parts = urlsplit(url)
        self._home: Address = parts.hostname or "", parts.port or 6379
        self._nodes: dict[Address, Valkey] = {}
        self._serving: list[Valkey | None] = [None] * SLOTS
        self._primaries: list[Valkey] = []
        self._has_gap = True
        self._hooks: list[Hook] = []
        self._moved = asyncio.Event()
        self._reading = asyncio.Lock()
        self._watch: asyncio.Task[None] | None = None
        self._next_listening = 0
        self._is_closing = False

    @classmethod
    async def connect(cls, url: str, *, timeout_ms: int = 1000) -> ValkeyCluster:
        """An adapter that has tried once to learn the map, and goes on trying."""
        cluster = cls(url, timeout_ms=timeout_ms)
        with contextlib.suppress(StorageUnavailable):
            await cluster.learn()
        cluster._watch = asyncio.get_running_loop().create_task(cluster._keep_map(), name="valkey-cluster-map")
        return cluster

    @property
    def is_down(self) -> bool:
        """True while some slots are not served."""
        return self._has_gap or any(node.is_down for node in self._primaries)

    @property
    def shown_state(self) -> str:
        """``down`` while one of the primaries is."""
        return "down" if self._has_gap or any(node.shown_state == "down" for node in self._primaries) else "up"

    @property
    def trouble(self) -> Trouble | None:
        """Of the first node that has one."""
        return next((node.trouble for node in self._nodes.values() if node.trouble), None)

    @property
    def ever_connected(self) -> bool:
        """True once this process has reached a node."""
        return any(node.ever_connected for node in self._nodes.values())

    @ever_connected.setter
    def ever_connected(self, value: bool) -> None:
        raise AttributeError

    def on_reconnect(self, hook: Hook) -> None:
        """Call ``hook`` when a node is back, and when slots have another primary."""
        self._hooks.append(hook)

    async def execute(self, *command: Any) -> Any:
        """Run one command where its key is. FUNCTION runs on every primary."""
        name = command[0]
        if name == "FUNCTION":
            return await self._everywhere(command)
        return await self._run(self._node_of(command), command)

    async def pipeline(self, commands: Iterable[Command]) -> list[Any]:
        """Run commands in one round trip to each node they concern.

        Those of a node that is away have StorageUnavailable in their places; it is raised when that is all of them.
        """
        wanted = list(commands)
        replies: list[Any] = [StorageUnavailable()] * len(wanted)
        shares: dict[int, tuple[Valkey, list[int]]] = {}
        for index, command in enumerate(wanted):
            with contextlib.suppress(StorageUnavailable):
                node = self._node_of(command)
                shares.setdefault(id(node), (node, []))[1].append(index)
        await asyncio.gather(*(self._share(node, wanted, places, replies) for node, places in shares.values()))
        if wanted and all(isinstance(reply, StorageUnavailable) for reply in replies):
            raise StorageUnavailable
        return replies

    async def _share(self, node: Valkey, wanted: list[Command], places: list[int], replies: list[Any]) -> None:
        """Run one node's part of a pipeline."""
        try:
            answers = await node.pipeline([wanted[place] for place in places])
        except StorageUnavailable:
            self._moved.set()
            return
        for place, reply in zip(places, answers, strict=True):
            replies[place] = reply
            if isinstance(reply, wrong.ResponseError) and _is_elsewhere(reply):
                try:
                    replies[place] = await self._follow(reply, wanted[place])
                except (wrong.ResponseError, StorageUnavailable) as error:
                    replies[place] = error

    def listen(self, handlers: Mapping[str, MessageHandler], *, on_resync: Hook) -> Listener:
        """A listener; messages reach every node, so any that answers will do, another one after each loss."""
        return Listener(self._listening_client, handlers, on_resync)

    async def everywhere(self, *command: Any) -> list[Any]:
        """Replies of every primary to a command without a key; StorageUnavailable when one of them is away."""
        return [await node.execute(*command) for node in self._primaries]

    async def close(self) -> None:
        """End every connection."""
        self._is_closing = True
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        for node in self._nodes.values():
            await node.close()

    async def learn(self) -> None:
        """Read the map from the first node that tells it; StorageUnavailable when none does."""
        async with self._reading:
            for node in sorted(self._known(), key=lambda node: node.is_down):
                try:
                    ranges = await node.execute("CLUSTER", "SLOTS")
                except StorageUnavailable:
                    continue
                except wrong.ResponseError as error:
                    if "cluster support disabled" not in str(error):
                        log.warning("cluster_map_not_told", said=str(error)[:60])
                        continue
                    ranges = [[0, SLOTS - 1, [b"", 0]]]
                await self._take(ranges)
                return
        raise StorageUnavailable

    async def _take(self, ranges: Any) -> None:
        """Serve by this map: ranges of slots, each with its primary first."""
        serving: list[Valkey | None] = [None] * SLOTS
        for first, last, primary, *_ in ranges:
            node = self._node(primary[0].decode() if primary[0] else self._home[0], int(primary[1]) or self._home[1])
            serving[first : last + 1] = [node] * (last + 1 - first)
        had_map = any(self._serving)
        is_new, self._serving = serving != self._serving, serving
        self._primaries = list({id(node): node for node in serving if node is not None}.values())
        self._has_gap = None in serving
        used = {id(node) for node in self._primaries}
        for address, node in list(self._nodes.items()):
            if id(node) not in used and address != self._home:
                del self._nodes[address]
                await node.close()
        if had_map and is_new:
            log.info("cluster_map_changed", primaries=len(self._primaries))
            await self._tell()

    async def _keep_map(self) -> None:
        while not self._is_closing:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._moved.wait(), LOOK_SEC if self.is_down else CALM_SEC)
            self._moved.clear()
            with contextlib.suppress(StorageUnavailable):
                try:
                    await self.learn()
                except Exception:
                    log.exception("cluster_map_not_read")
            if self.is_down:
                await asyncio.sleep(LOOK_SEC)

    async def _tell(self) -> None:
        for hook in self._hooks:
            with contextlib.suppress(StorageUnavailable):
                await hook()

    def _known(self) -> list[Valkey]:
        self._node(*self._home)
        return list(self._nodes.values())

    def _node(self, host: str, port: int) -> Valkey:
        node = self._nodes.get((host, port))
        if node is None:
            node = self._nodes[host, port] = Valkey(_with_address(self._seed, host, port), timeout_ms=self._timeout_ms)
            node.on_reconnect(self._tell)
        return node

    def _node_of(self, command: Command) -> Valkey:
        """The node that is to run ``command``; one without a key is run by any that answers."""
        name = command[0]
        if name in _KEYLESS:
            node = next((node for node in self._primaries if not node.is_down), None)
        else:
            key = command[3] if name in _WITH_NUMKEYS else command[1]
            node = self._serving[key_slot(key.encode() if isinstance(key, str) else key)]
        if node is None:
            self._moved.set()
            raise StorageUnavailable
        return node

    async def _run(self, node: Valkey, command: Command) -> Any:
        try:
            return await node.execute(*command)
        except StorageUnavailable:
            if node.is_down:
                self._moved.set()
            raise
        except wrong.ResponseError as error:
            if not _is_elsewhere(error):
                raise
            return await self._follow(error, command)

    async def _follow(self, error: wrong.ResponseError, command: Command) -> Any:
        """Run a command where the node says that its slot is by now."""
        if isinstance(error, wrong.AskError):
            asking, reply = await self._node(error.host, error.port).pipeline([("ASKING",), command])
            if isinstance(asking, Exception):
                raise asking
        elif isinstance(error, wrong.MovedError):
            self._moved.set()
            (reply,) = await self._node(error.host or self._home[0], error.port).pipeline([command])
        else:
            self._moved.set()
            raise StorageUnavailable from error
        if isinstance(reply, wrong.ResponseError) and _is_elsewhere(reply):
            raise StorageUnavailable from reply
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def _everywhere(self, command: Command) -> Any:
        """Run a command on every primary; the work may be done already on some of them."""
        reply, done_before = None, None
        if not self._primaries:
            raise StorageUnavailable
        for node in self._primaries:
            try:
                reply = await node.execute(*command)
            except wrong.ResponseError as error:
                if not any(words in str(error) for words in _ALREADY):
                    raise
                done_before = error
        if reply is None and done_before is not None:
            raise done_before
        return reply

    def _listening_client(self) -> Any:
        """A client for a listener, of another node each time."""
        nodes = [address for address, node in self._nodes.items() if not node.is_down] or [self._home]
        self._next_listening += 1
        host, port = nodes[self._next_listening % len(nodes)]
        return make_client(_with_address(self._seed, host, port), self._timeout_ms / 1000)


def _is_elsewhere(error: Exception) -> bool:
    return isinstance(error, wrong.MovedError | wrong.AskError | wrong.ClusterDownError)


def _with_address(url: str, host: str, port: int) -> str:
    """``url`` with another host and port, its credentials and options kept."""
    parts = urlsplit(url)
    user = parts.netloc.rpartition("@")[0]
    name = f"[{host}]" if ":" in host else host
    return urlunsplit(parts._replace(netloc=f"{user}@{name}:{port}" if user else f"{name}:{port}"))


async def connect_valkey(url: str, *, timeout_ms: int, is_cluster: bool) -> Valkey:
    """The adapter for a single Valkey or a cluster."""
    return await (ValkeyCluster if is_cluster else Valkey).connect(url, timeout_ms=timeout_ms)
