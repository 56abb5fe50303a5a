"""DATA_DIR of STORE=embedded: one server at a time, one format, and the keys that were made for it."""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.core.secret import Secret
from app.core.settings import ConfigWarning, Refused

FORMAT: Final = "1"
_SECRET_FILE: Final = "secret"  # noqa: S105 - the name of a file
_KEY_FILE: Final = "admin-key"


@dataclass(slots=True)
class DataDir:
    """An open DATA_DIR; the lock ends with this process, however it ends."""

    path: Path
    _lock: int

    @classmethod
    def open(cls, path: Path) -> DataDir:
        """Make and lock the directory.

        Raises:
            Refused: in use (with the pid of the server that uses it), not writable, or of a later format (CFG-188).
        """
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise Refused(
                f'DATA_DIR="{path}" cannot be written ({error.strerror}). '
                "Set DATA_DIR to a directory that this user can create and write."
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
            os.close(lock)
            raise Refused(
                f'DATA_DIR="{path}" is in use by a running server (pid {owner}). '
                "Stop that server, or give this one a DATA_DIR of its own."
            ) from None
        found = cls(path, lock)
        try:
            found._check_format()
        except Refused:
            os.close(lock)
            raise
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        return found

    def close(self) -> None:
        """Let the next server in."""
        os.ftruncate(self._lock, 0)
        self.let_go()

    def let_go(self) -> None:
        """Close a forked child's copy of the lock, which main goes on holding."""
        os.close(self._lock)

    def generated_secret(self) -> Secret:
        """SECRET of this directory, made at first use."""
        return self._kept(_SECRET_FILE)

    def generated_admin_key(self) -> Secret:
        """ADMIN_KEY of this directory, made at first use; in ``admin_key_path``."""
        return self._kept(_KEY_FILE)

    @property
    def admin_key_path(self) -> Path:
        """File that holds the generated ADMIN_KEY."""
        return self.path / _KEY_FILE

    def open_key_warnings(self) -> list[ConfigWarning]:
        """Key files that others may read (CFG-235)."""
        return [
            ConfigWarning(
                "no_effect",
                "DATA_DIR",
                str(self.path),
                str(self.path),
                f"{path} can be read by others: chmod 600 {path}",
            )
            for name in (_SECRET_FILE, _KEY_FILE)
            if (path := self.path / name).exists() and stat.S_IMODE(path.stat().st_mode) & 0o077
        ]

    def _kept(self, name: str) -> Secret:
        path = self.path / name
        if not path.exists():
            making = path.with_suffix(".new")
            making.unlink(missing_ok=True)
            with os.fdopen(os.open(making, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
                out.write(secrets.token_urlsafe(32) + "\n")
                out.flush()
                os.fsync(out.fileno())
            making.rename(path)
        return Secret(path.read_text().strip())

    def _check_format(self) -> None:
        path = self.path / "format"
        if not path.exists():
            path.write_text(FORMAT + "\n")
        elif path.read_text().strip() != FORMAT:
            raise Refused(
                f'DATA_DIR="{self.path}" is marked as not usable by this release (format '
                f"{path.read_text().strip()[:20]!r}, this release has {FORMAT}). Use the release that wrote it."
            )
