"""Files of the connectors as the server serves them: the script alone, and the project it is deployed from.

Made once and kept; the same bytes on every instance, whatever the time and the machine. Source: PAG-038 … PAG-049.
Not here: HTTP, and what a connector does (static/connectors).
"""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.services.asset_file import compress, content_hash
from app.services.assets import STATIC_DIR

SCRIPT: Final = "text/javascript"
ARCHIVE: Final = "application/gzip"


@dataclass(frozen=True, slots=True)
class Connector:
    """``script``: the file that is served alone; ``files``: all of its project."""

    id: str
    name: str
    version: str
    script: str
    files: tuple[str, ...]


CONNECTORS: Final = (
    Connector("cloudflare", "qm-edge-gate", "1.2.0", "worker.js",
              ("README.md", "package.json", "worker.js", "wrangler.toml")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ConnectorFile:
    """A download. ``name``: what a browser saves it as."""

    body: bytes
    media_type: str
    name: str
    etag: str

    @classmethod
    def of(cls, body: bytes, media_type: str, name: str) -> ConnectorFile:
        """The file with its entity tag."""
        return cls(body, media_type, name, f'"{content_hash(body)}"')


class ConnectorFiles:
    """All files of all connectors, from memory."""

    def __init__(self, *, folder: Path = STATIC_DIR / "connectors") -> None:
        self._files: dict[tuple[str, str], ConnectorFile] = {}
        for one in CONNECTORS:
            name = f"{one.name}-{one.version}"
            script = ConnectorFile.of((folder / one.id / one.script).read_bytes(), SCRIPT, f"{name}.js")
            project = ConnectorFile.of(_archive(folder / one.id, one.files, name), ARCHIVE, f"{name}.tgz")
            for version in ("latest", one.version):
                self._files[one.id, f"{version}.js"] = script
                self._files[one.id, f"{version}.tgz"] = project

    def get(self, connector: str, name: str) -> ConnectorFile | None:
        """``latest.js``, ``latest.tgz``, and the same under their version."""
        return self._files.get((connector, name))


def _archive(folder: Path, names: tuple[str, ...], top: str) -> bytes:
    """A tar of these files in a folder ``top``, compressed; nothing in it depends on when and where it was made."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(names):
            body = (folder / name).read_bytes()
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mode = len(body), 0o644
            tar.addfile(entry, io.BytesIO(body))
    return compress(packed.getvalue())
