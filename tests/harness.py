"""A server under test: started as an operator starts it, stopped or killed by its process id.

What the environment of the run asks for (another command, another store) is read in ``tests/run_environment.py``.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from app.core.parent_death import die_with_parent_before_exec
from tests.run_environment import read
from tests.run_stores import Place, shared

ROOT = Path(__file__).resolve().parents[1]
START_SEC = 60.0
FREE_SEC = 5.0
PASSED = re.compile(r"PATH|HOME|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|TEMP|TMP|PYTHON\w*")
"""Variables around the run that a server is given: none of the product's."""
LIMITS = (
    "JOIN_LIMIT_PER_MIN", "CHECK_LIMIT_PER_MIN", "STATUS_LIMIT_PER_MIN", "WAITING_LIMIT_PER_MIN", "SSE_PER_IP",
    "SSE_MAX_TOTAL", "ADMIN_AUTH_FAIL_PER_MIN", "VERIFY_LIMIT_PER_MIN", "NOTIFY_LIMIT_PER_MIN",
)  # fmt: skip


class ServerEnded(AssertionError):
    """The server ended, or did not listen in time; the text carries its stderr."""


class Server:
    """``with Server(env={...}, workers=2) as server:`` - a running server with a directory of its own.

    The environment is CFG-091's (limits off, a key, a secret, any free port) plus ``env``, in which None unsets. A
    restart keeps ``base`` and with it the state, except with ``STORE=memory``. With ``STORE=valkey`` and no
    ``VALKEY_URL`` it has a ``place`` of its own in the shared stores, which goes with it.
    """

    def __init__(
        self,
        env: dict[str, str | None] | None = None,
        *,
        workers: int = 2,
        command: list[str] | None = None,
        root: Path = ROOT,
    ):
        """``root``: folder of the code, of this build unless another is named."""
        run = read(os.environ)
        is_foreign = command is None and run.command is not None
        given = {"STORE": run.store, **(env or {})}
        has_place = given["STORE"] == "valkey" and "VALKEY_URL" not in given
        if has_place:
            shared()  # skips, where there are no shared stores, before anything is made
        self.root = root
        self.is_foreign = is_foreign
        self.base = Path(tempfile.mkdtemp(prefix="qm-test-"))
        self.place = Place.of(self.base.name) if has_place else None
        self.admin_key = secrets.token_hex(16)
        variables: dict[str, str | None] = {
            **{name: value for name, value in os.environ.items() if PASSED.fullmatch(name)},
            "PORT": str(free_port()) if is_foreign else "0",  # any other server need not know the 0
            "HOST": "127.0.0.1",
            "DATA_DIR": str(self.base / "data"),
            "ADMIN_KEY": self.admin_key,
            "SECRET": secrets.token_hex(32),
            "QM_WORKERS": str(workers),
            "SHUTDOWN_GRACE_MS": "0",
            "SHUTDOWN_DRAIN_MS": "15000",  # a bound for a busy machine; a stop takes as long as it needs
            "MESH_KNOCK_MS": "600000",  # sites of rooms under test do not exist
            "LOOP_LAG_WARN_MS": "5000",  # a machine that runs tests is busy
            **dict.fromkeys(LIMITS, "0"),
            **(self.place.env if self.place else {}),
            **given,
        }
        self.env = {name: value for name, value in variables.items() if value is not None}
        self.command = command or list(run.command or (sys.executable, "-m", "app", "serve"))
        self.process: subprocess.Popen[str] | None = None
        self.line = ""
        self.url = ""
        self._err_path = self.base / "stderr.txt"

    @property
    def pid(self) -> int:
        """Process id of the server itself."""
        assert self.process is not None
        return self.process.pid

    @property
    def stderr(self) -> str:
        """All that the server has written to stderr, over its restarts."""
        return self._err_path.read_text(errors="replace") if self._err_path.exists() else ""

    def start(self, *, wait: bool = True) -> Server:
        """Start it; returns when it listens, at once with ``wait=False``."""
        with self._err_path.open("a") as err:
            self.process = subprocess.Popen(
                self.command,
                cwd=self.root,
                env=self.env,
                stdout=subprocess.PIPE,
                stderr=err,
                text=True,
                process_group=0,
                preexec_fn=die_with_parent_before_exec(os.getpid()),  # a test run that is killed leaves no server
            )
        if wait:
            self.await_listening()
        return self

    def await_listening(self) -> None:
        """Read the ``listening`` line; ServerEnded with what stderr says when it does not come."""
        assert self.process is not None
        assert self.process.stdout is not None
        too_late = threading.Timer(START_SEC, self.process.kill)
        too_late.start()
        try:
            for line in self.process.stdout:
                self.line = line.strip()
                if "listening" in line:
                    break
            else:
                code = self.process.wait(10)
                raise ServerEnded(f"no listening line (exit code {code}); stderr:\n{self.stderr[-4000:]}")
        finally:
            too_late.cancel()
        match = re.search(r"http://\S+", self.line)
        self.url = match[0] if match else f"http://{self.env['HOST']}:{self.env['PORT']}"

    def kill(self, sig: signal.Signals = signal.SIGKILL) -> None:
        """Send ``sig`` to the started process."""
        os.kill(self.pid, sig)

    def kill_group(self, sig: signal.Signals) -> None:
        """Send ``sig`` to the process group of the started process."""
        os.killpg(self.pid, sig)

    def wait(self, deadline_sec: float = 30.0) -> int:
        """Exit code, once it has ended."""
        assert self.process is not None
        code = self.process.wait(deadline_sec)
        if self.process.stdout is not None:
            self.process.stdout.close()
        if self.is_foreign:
            self._refuse_wrapper()
        return code

    def stop(self) -> int:
        """An orderly stop; the exit code."""
        if self.process is not None and self.process.poll() is None:
            self.kill(signal.SIGTERM)
        return self.wait()

    def restart(self) -> None:
        """Stop and start on the same directory."""
        self.stop()
        self.start()

    def descendants(self) -> dict[int, str]:
        """Living processes that this server started, by id: their command lines."""
        return {pid: line for pid, line in _children_of(self.pid).items() if line}

    def __enter__(self) -> Server:
        try:
            return self.start()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._end()
        finally:
            if error is not None:
                sys.stderr.write(f"--- stderr of the server ---\n{self.stderr[-6000:]}\n")
            shutil.rmtree(self.base, ignore_errors=True)
            if self.place is not None:
                self.place.clear()

    def _end(self) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            self.kill(signal.SIGTERM)
            try:
                self.wait(15)
            except subprocess.TimeoutExpired:
                self.kill()
        self.wait()

    def _refuse_wrapper(self) -> None:
        """A command that has ended while its port still answers was not the server itself (TST-026)."""
        port = int(self.url.rpartition(":")[2]) if self.url else 0
        end = time.monotonic() + FREE_SEC
        while port and is_open(port):
            assert time.monotonic() < end, f"QM_SERVER_CMD is a wrapper: its process has ended, port {port} is open"
            time.sleep(0.05)


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def is_open(port: int) -> bool:
    """True when somebody listens on this loopback port."""
    with socket.socket() as sock:
        sock.settimeout(1)
        return sock.connect_ex(("127.0.0.1", port)) == 0


def is_running(pid: int) -> bool:
    """True for a process that lives; one that is dead and not yet collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def troubles(body: dict[str, Any]) -> list[str]:
    """Codes of what is wrong, of ``/healthz`` or health. A machine that runs tests may lack CPU: that is left out."""
    return [code for code in body["degraded"] if code != "cpu_contention"]


def wait_for(claim, deadline_sec: float = 20.0) -> None:  # type: ignore[no-untyped-def]
    """Return when ``claim()`` holds; AssertionError at the deadline."""
    end = time.monotonic() + deadline_sec
    while not claim():
        assert time.monotonic() < end, "it did not become true in time"
        time.sleep(0.01)


def await_value(read: Callable[[], object], wanted: object, deadline_sec: float = 20.0) -> None:
    """Return when ``read()`` is ``wanted``; AssertionError with the last that was read at the deadline."""
    end = time.monotonic() + deadline_sec
    while (found := read()) != wanted:
        assert time.monotonic() < end, f"{found!r} did not become {wanted!r} in time"
        time.sleep(0.01)


def _children_of(root: int) -> dict[int, str]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    found: dict[int, str] = {}
    open_ends = [root]
    while open_ends:
        parent = open_ends.pop()
        for pid, its_parent in parents.items():
            if its_parent == parent and is_running(pid):
                open_ends.append(pid)
                try:
                    words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                except (FileNotFoundError, ProcessLookupError):
                    continue
                found[pid] = words.strip()
    return found
