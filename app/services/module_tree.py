"""A tree of browser modules served from memory: read once, hashed once, compressed once.

Belongs here: pages built of ES modules that import each other by relative address, which is why one digest stands for
the whole tree (a digest per file would have to be written into every import). Not here: HTTP, and pages whose scripts
are joined into one file.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CONTENT_TYPES: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class TreeFile:
    """One file as it is sent."""

    body: bytes
    packed: bytes
    """``body`` compressed with gzip."""
    content_type: str

    def encoded(self, accept_encoding: str) -> tuple[bytes, bool]:
        """Return the bytes for a client with this ``Accept-Encoding`` and whether they are gzip."""
        if accepts_gzip(accept_encoding) and len(self.packed) < len(self.body):
            return self.packed, True
        return self.body, False


@dataclass(frozen=True, slots=True)
class ModuleTree:
    """Files by address inside the tree (``console/main.js``), under one digest."""

    digest: str
    files: Mapping[str, TreeFile]


def accepts_gzip(accept_encoding: str) -> bool:
    """Tell whether ``Accept-Encoding`` names gzip with a weight above 0."""
    for item in accept_encoding.lower().split(","):
        name, _, weight = item.partition(";")
        if name.strip() == "gzip":
            return weight.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False


def pack(body: bytes, content_type: str) -> TreeFile:
    """Make a file ready to be sent; the compressed bytes do not depend on the time."""
    return TreeFile(body=body, packed=gzip.compress(body, 9, mtime=0), content_type=content_type)


def load_tree(sources: Mapping[str, list[Path]]) -> ModuleTree:
    """Read ``sources`` (folder inside the tree → files) into one tree.

    Raises FileNotFoundError for a missing file and KeyError for an ending that is not in ``CONTENT_TYPES``.
    """
    digest = hashlib.sha256()
    files: dict[str, TreeFile] = {}
    for folder, paths in sorted(sources.items()):
        for path in sorted(paths):
            name, body = f"{folder}/{path.name}", path.read_bytes()
            digest.update(f"{name}\0{len(body)}\0".encode() + body)
            files[name] = pack(body, CONTENT_TYPES[path.suffix])
    return ModuleTree(digest=digest.hexdigest()[:16], files=files)
