"""``qm_from``: what a connector's visitor carries from the site to the queue, so that his ticket knows both addresses.

The loose fingerprint by which a connector saw him, signed (ENG-110, VIS-139). It gives no place and no pass; it only
lets the ticket of whoever joins with it be asked for by that connector. Not here: visitor tokens (tokens.py), what the
fingerprint proves (the engine).
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from app.domain.fingerprint import DIGEST_BYTES
from app.domain.keyring import Keyring, Purpose
from app.domain.tokens import MAX_FUTURE_MS, SignedTokens

SCOPE: Final = "from"
MAX_AGE_MS: Final = 600_000
MAX_CHARS: Final = 512
_PRINT_CHARS: Final = 22


class FromTokens:
    """Writes and reads ``qm_from`` values of one server."""

    __slots__ = ("_signed",)

    def __init__(self, keyring: Keyring) -> None:
        self._signed = SignedTokens(keyring, Purpose.VISITOR)

    def sign(self, room: str, loose: bytes, now_ms: int) -> str:
        """Value for a visitor of ``room`` with this loose fingerprint (16 bytes), made at ``now_ms``."""
        text = urlsafe_b64encode(loose).decode().rstrip("=")
        return self._signed.sign({"scope": SCOPE, "room": room, "print": text, "iat": now_ms})

    def read(self, value: str | None, room: str, now_ms: int) -> bytes:
        """The fingerprint in a value for ``room``; b"" when it is missing, old, forged or of another kind."""
        if not value or len(value) > MAX_CHARS:
            return b""
        payload = self._signed.open(value)
        if not isinstance(payload, dict) or payload.get("scope") != SCOPE or payload.get("room") != room:
            return b""
        made, text = payload.get("iat"), payload.get("print")
        if type(made) is not int or type(text) is not str or len(text) != _PRINT_CHARS:
            return b""
        if made - now_ms > MAX_FUTURE_MS or now_ms - made > MAX_AGE_MS:
            return b""
        loose = urlsafe_b64decode(text + "==")
        return loose if len(loose) == DIGEST_BYTES else b""
