"""Private stores: sockets, dead children, leftovers, identities, platforms without wheels."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from redis import Redis

from app.core.settings import Refused
from app.infrastructure import store_binaries
from app.infrastructure.embedded import PrivateStores
from app.infrastructure.store_binaries import Binaries, Identity, NoBinaries
from app.infrastructure.store_leftovers import end_leftovers, sweep_run_dirs
from app.process.data_dir import DataDir
from tests.harness import is_running, wait_for


def pid_of(stores: PrivateStores, name: str) -> int:
    process = stores.children[name].process
    assert process is not None
    return process.pid


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[PrivateStores]:
    """Stores on kept data, far below the 107 bytes that a socket's path may have."""
    deep = tmp_path / ("d" * 100) / ("e" * 60)
    stores = PrivateStores(data_dir=deep)
    stores.start()
    try:
        yield stores
    finally:
        stores.stop()


async def test_it_gives_each_test_both_stores(valkey_url: str, fresh_prefix: str, fresh_schema: str) -> None:
    with Redis.from_url(valkey_url) as client:
        client.set(fresh_prefix + "a", "1")
        assert client.get(fresh_prefix + "a") == b"1"

    link = await asyncpg.connect(fresh_schema)
    await link.execute("CREATE TABLE a (b int)")
    assert (await link.fetchval("SELECT current_schema()")).startswith("t_")
    await link.close()


@pytest.mark.req("FLT-004")
def test_it_opens_no_tcp_port(private_stores: PrivateStores) -> None:
    inodes = {
        line.split()[9] for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    }
    for name in ("valkey", "postgres"):
        links = [os.readlink(entry) for entry in Path(f"/proc/{pid_of(private_stores, name)}/fd").iterdir()]
        assert not inodes & {link[8:-1] for link in links if link.startswith("socket:[")}
    assert private_stores.run_dir.stat().st_mode & 0o777 == 0o700


@pytest.mark.req("FLT-005")
async def test_it_starts_dead_children_again_with_their_data(kept: PrivateStores) -> None:
    link = await asyncpg.connect(kept.database_url)
    await link.execute("CREATE TABLE a AS SELECT 7 AS b")
    await link.close(timeout=5)
    for name in ("valkey", "postgres"):
        os.kill(pid_of(kept, name), signal.SIGKILL)
    wait_for(lambda: len(kept.dead()) == 2)

    assert kept.watch()

    assert kept.dead() == []
    for name in ("valkey", "postgres"):
        kept._await(name)
    link = await asyncpg.connect(kept.database_url)
    assert await link.fetchval("SELECT b FROM a") == 7
    await link.close(timeout=5)


def test_it_gives_up_on_a_store_that_does_not_stay_alive(tmp_path: Path) -> None:
    stores = PrivateStores(data_dir=None)
    stores.start()
    try:
        child = stores.children["valkey"]
        child.command = ["/bin/false"]
        os.kill(pid_of(stores, "valkey"), signal.SIGKILL)
        wait_for(lambda: not stores.watch(), 60)
    finally:
        stores.stop()


@pytest.mark.req("FLT-004")
def test_it_ends_stores_that_a_killed_server_left(tmp_path: Path) -> None:
    home = tmp_path / "valkey"
    home.mkdir()
    binary = str(Binaries.find().valkey)
    left = subprocess.Popen(
        [binary, "--port", "0", "--unixsocket", str(home / "s"), "--dir", str(home)], stdout=subprocess.DEVNULL
    )
    wait_for(lambda: (home / "s").exists())
    stranger = subprocess.Popen(["sleep", "60"], cwd=home)

    assert end_leftovers(home) == [left.pid]

    assert left.wait(5) == -signal.SIGKILL
    assert is_running(stranger.pid)
    stranger.kill()
    stranger.wait()
    assert end_leftovers(home) == []


def test_it_removes_only_run_directories_whose_server_is_gone(
    private_stores: PrivateStores, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("app.infrastructure.store_leftovers._run_base", lambda: tmp_path)
    for name, owner in (("qm-run-dead", "1 12345"), ("qm-run-odd", "x"), ("other", "1 12345")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "owner").write_text(owner)
    (tmp_path / "qm-run-bare").mkdir()
    (tmp_path / "qm-run-mine").mkdir()
    (tmp_path / "qm-run-mine" / "owner").write_text((private_stores.run_dir / "owner").read_text())

    gone = {path.name for path in sweep_run_dirs()}

    assert gone == {"qm-run-dead", "qm-run-odd"}
    assert {path.name for path in tmp_path.iterdir()} == {"other", "qm-run-bare", "qm-run-mine"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")
async def test_it_runs_postgres_as_another_user_where_no_namespace_may_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_binaries.shutil, "which", lambda name: None)
    identity = store_binaries.postgres_identity()
    assert identity.uid not in (None, 0)
    stores = PrivateStores(data_dir=None)
    stores.start()
    try:
        link = await asyncpg.connect(stores.database_url)
        assert await link.fetchval("SELECT 1") == 1
        await link.close(timeout=5)
        status = Path(f"/proc/{pid_of(stores, 'postgres')}/status").read_text()
        assert f"Uid:\t{identity.uid}\t" in status
    finally:
        stores.stop()


def test_it_needs_no_other_user_when_it_is_not_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_binaries.os, "geteuid", lambda: 1000)

    assert store_binaries.postgres_identity() == Identity()


def test_it_names_the_way_out_on_a_platform_without_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    with pytest.raises(NoBinaries) as caught:
        PrivateStores(data_dir=None).start()

    for words in ("STORE=valkey", "VALKEY_URL", "DATABASE_URL"):
        assert words in str(caught.value)


def test_it_keeps_keys_of_mode_0600_and_names_those_that_others_may_read(tmp_path: Path) -> None:
    folder = DataDir.open(tmp_path / "data")
    first = folder.generated_secret().reveal()
    assert len(first) >= 32
    assert folder.generated_secret().reveal() == first
    assert folder.generated_admin_key().reveal() != first
    assert folder.open_key_warnings() == []

    (tmp_path / "data" / "secret").chmod(0o644)

    assert [str(tmp_path / "data" / "secret") in warning.message for warning in folder.open_key_warnings()] == [True]
    folder.close()


@pytest.mark.req("CFG-188", "FLT-006", "CFG-021")
def test_it_refuses_a_data_dir_it_cannot_use_and_changes_nothing_in_it(tmp_path: Path) -> None:
    used = tmp_path / "used"
    first = DataDir.open(used)
    first.generated_secret()
    mine = {path.name: path.read_bytes() for path in used.iterdir()}
    with pytest.raises(Refused, match=f"in use by a running server \\(pid {os.getpid()}\\)"):
        DataDir.open(used)
    assert {path.name: path.read_bytes() for path in used.iterdir()} == mine
    first.close()
    DataDir.open(used).close()

    (used / "format").write_text("2\n")
    before = {path.name: path.read_bytes() for path in used.iterdir()}
    with pytest.raises(Refused, match="not usable by this release"):
        DataDir.open(used)
    assert {path.name: path.read_bytes() for path in used.iterdir()} == before

    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="cannot be written"):
        DataDir.open(tmp_path / "file" / "data")
