"""One file that is served from memory: its bytes, compressed once, and the hash that names it."""

from __future__ import annotations

import base64
import gzip
import hashlib
from dataclasses import dataclass
from typing import Final

_HASH_LENGTH: Final = 22


@dataclass(frozen=True, slots=True)
class Asset:
    """One served file. ``gzipped`` is None where compression gains nothing (fonts)."""

    name: str
    """Name in its folder, with the hash where it has one: ``waiting-<hash>.css``."""
    media_type: str
    body: bytes
    gzipped: bytes | None = None


def content_hash(body: bytes) -> str:
    """First 22 characters of the base64url SHA-256 of a file (VIS-105, PAG-164)."""
    return base64.urlsafe_b64encode(hashlib.sha256(body).digest()).decode("ascii")[:_HASH_LENGTH]


def compress(body: bytes) -> bytes:
    """Gzip without a time stamp, so that every instance of a build makes the same bytes (PAG-169)."""
    return gzip.compress(body, 9, mtime=0)
