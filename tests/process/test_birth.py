"""How main's processes are born: what a forked child lets go of, and what it is given."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from app.process.birth import Births
from app.process.data_dir import DataDir
from app.process.state_table import StateTable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")

WEB, BACKGROUND = "Sanic-Server-0-0", "Sanic-ticker-0"


def run(births: Births, name: str, out: Path, fd: int, **more: object) -> dict[str, str]:
    process = births.Process(name=name, target=_look, kwargs={"out": str(out), "fd": fd, **more}, daemon=True)
    process.start()
    process.join(30)
    assert process.exitcode == 0
    return dict(line.split("=", 1) for line in out.read_text().splitlines())


def _look(out: str, fd: int, states: object = None) -> None:
    from sanic import Sanic

    try:
        os.fstat(fd)
        held = "yes"
    except OSError:
        held = "no"
    ignored = [signal.getsignal(number) is signal.SIG_IGN for number in (signal.SIGTERM, signal.SIGINT)]
    if states is not None:
        states[WEB] = {"serving": True}  # type: ignore[index]
    apps = sorted(Sanic._app_registry)
    Path(out).write_text(f"held={held}\nignored={all(ignored)}\nstates={type(states).__name__}\napps={apps}")


@pytest.mark.parametrize(("name", "held"), [(WEB, "yes"), (BACKGROUND, "no")])
def test_it_leaves_the_listening_socket_to_web_workers_alone(name: str, held: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        births = Births(listener.close)

        seen = run(births, name, tmp_path / "seen", listener.fileno())

        assert seen["held"] == held
        assert listener.fileno() >= 0, "main's own stays open"


@pytest.mark.parametrize(("name", "held"), [(WEB, "no"), (BACKGROUND, "no"), ("Sanic-heavy-0", "yes")])
def test_it_leaves_what_is_lent_to_one_process_to_that_alone(name: str, held: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as inbox:
        births = Births(lambda: None)
        births.lend(inbox.close, "Sanic-heavy-0")

        assert run(births, name, tmp_path / "seen", inbox.fileno())["held"] == held
        assert inbox.fileno() >= 0, "main's own stays open"


def test_it_gives_a_child_the_childs_side_of_the_table(tmp_path: Path) -> None:
    table = StateTable()
    table[WEB] = {"server": True}

    seen = run(Births(lambda: None), WEB, tmp_path / "seen", 0, states=table)
    table.drain()

    assert seen["states"] == "ChildStates"
    assert table.is_ready(WEB)


def test_it_ignores_the_signals_that_main_heeds_and_forgets_mains_application(tmp_path: Path) -> None:
    from sanic import Sanic

    made = Sanic("made-by-main")
    try:
        seen = run(Births(lambda: None), BACKGROUND, tmp_path / "seen", 0)
    finally:
        Sanic._app_registry.pop(made.name)

    assert seen["ignored"] == "True"
    assert seen["apps"] == "[]"


def test_it_closes_a_childs_copy_of_the_lock_and_main_goes_on_holding_it(tmp_path: Path) -> None:
    data_dir = DataDir.open(tmp_path / "data")
    births = Births(lambda: None)
    births.withhold(data_dir.let_go)

    seen = run(births, WEB, tmp_path / "seen", data_dir._lock)

    assert seen["held"] == "no"
    assert (tmp_path / "data" / "lock").read_text() == f"{os.getpid()}\n"
    with pytest.raises(Exception, match="in use by a running server"):
        DataDir.open(tmp_path / "data")
    data_dir.close()
