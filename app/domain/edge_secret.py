"""The edge secret: proof that a request came through the operator's CDN (VIS-027, VIS-035, CFG-124 … CFG-136).

Belongs here: the comparison, and what needs no proof. Not here: who the visitor then is (client_address.py).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Final

HEADER: Final = b"x-qm-edge"

EDGE_EXEMPT: Final = (("GET", b"/healthz"), ("HEAD", b"/healthz"))
"""All that is answered without the secret: method and path, byte for byte; a query is allowed (CFG-093, CFG-127)."""


class EdgeSecret:
    """The values that count now; two while they are being changed."""

    __slots__ = ("_digests",)

    def __init__(self, values: Iterable[str]) -> None:
        """``values`` of EDGE_SECRET, one or more; none holds a comma, so a header sent twice fits none of them."""
        self._digests = tuple(_digest(value.encode("utf-8")) for value in values)

    def __len__(self) -> int:
        """How many values count."""
        return len(self._digests)

    def opens(self, sent: bytes | None) -> bool:
        """Tell whether ``sent`` is one of the values. Takes the same time for every wrong one."""
        digest = _digest(sent or b"")
        found = False
        for known in self._digests:
            found |= hmac.compare_digest(digest, known)
        return found and sent is not None


def is_exempt(method: str, path: bytes) -> bool:
    """Tell whether a request needs no secret. ``path`` is the raw one, without the query."""
    return (method, path) in EDGE_EXEMPT


def _digest(value: bytes) -> bytes:
    """Equal length for every value, so that comparing tells nothing about it."""
    return hashlib.sha256(value).digest()
