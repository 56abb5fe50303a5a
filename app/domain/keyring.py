"""The signing keys of a deployment: ``SECRET``, ``SECRET_PREVIOUS`` and what is derived from them.

Belongs here: which key signs, which keys may verify, the public names of keys. Not here: what is signed
(tokens.py), where secrets come from (core/settings.py). Source: ENG-082 … ENG-087, CFG-144 … CFG-148.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

HASH_BYTES: Final = 32
_BLOCK_BYTES: Final = 64
"""Block size of SHA-256, to which HMAC pads its key (RFC 2104)."""
_INNER_PAD: Final = bytes(x ^ 0x36 for x in range(256))
_OUTER_PAD: Final = bytes(x ^ 0x5C for x in range(256))


class Purpose(StrEnum):
    """What a signature is for; each has a v2 key of its own (ENG-083)."""

    VISITOR = "visitor"
    MONITOR = "monitor"
    SESSION = "session"
    OPERATOR = "operator"


class MacKey:
    """One HMAC-SHA256 key with both hash states prepared, so that a signature costs no key schedule.

    ``sign`` answers the same bytes as ``hmac.digest(key, message, "sha256")`` at about half its cost.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        """``key`` may have any length; a long one is hashed first (RFC 2104)."""
        if len(key) > _BLOCK_BYTES:
            key = hashlib.sha256(key).digest()
        padded = key.ljust(_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha256(padded.translate(_INNER_PAD))
        self._outer = hashlib.sha256(padded.translate(_OUTER_PAD))

    def sign(self, message: bytes) -> bytes:
        """The 32-byte HMAC-SHA256 of ``message``."""
        inner = self._inner.copy()
        inner.update(message)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.digest()

    def __repr__(self) -> str:
        return "MacKey(…)"


def hkdf(secret: bytes, info: bytes, length: int) -> bytes:
    """HKDF-SHA256 with an empty salt (RFC 5869); ``length`` ≤ 32, so one block of output is enough."""
    if not 0 < length <= HASH_BYTES:
        raise ValueError("length must be 1 to 32")
    pseudo_random = hmac.digest(bytes(HASH_BYTES), secret, "sha256")
    return hmac.digest(pseudo_random, info + b"\x01", "sha256")[:length]


def kid_of(secret: str) -> str:
    """Public name of a secret: 8 lower-case hexadecimal digits (ENG-084)."""
    return hkdf(secret.encode(), b"qm:kid", 4).hex()


@dataclass(frozen=True, slots=True)
class Generation:
    """The keys that follow from one secret."""

    kid: str
    legacy: MacKey = field(repr=False)
    by_purpose: dict[Purpose, MacKey] = field(repr=False)

    @classmethod
    def of(cls, secret: str) -> Generation:
        """Derive every key of ``secret`` once."""
        raw = secret.encode()
        keys = {purpose: MacKey(hkdf(raw, f"qm:{purpose}".encode(), HASH_BYTES)) for purpose in Purpose}
        return cls(kid_of(secret), MacKey(raw), keys)


class Keyring:
    """Every key that this process signs or verifies with. Holds secrets: its ``repr`` shows only kids.

    The present secret signs; the present and the previous one verify (ENG-085, ENG-087, ENG-095).
    """

    __slots__ = ("_by_kid", "_present", "_previous", "sign_v2")

    def __init__(self, secret: str, previous: str | None = None, *, sign_v2: bool = False) -> None:
        """``sign_v2``: write tokens with ``kid`` and a key per purpose (``TOKEN_SIGN_V2``)."""
        self.sign_v2 = sign_v2
        self._present = Generation.of(secret)
        self._previous = Generation.of(previous) if previous and previous != secret else None
        self._by_kid = {g.kid: g for g in (self._previous, self._present) if g is not None}

    @property
    def kid(self) -> str:
        """Name of the present secret."""
        return self._present.kid

    @property
    def kids(self) -> tuple[str, ...]:
        """Names of all secrets that verify, the present one first."""
        return (self._present.kid,) if self._previous is None else (self._present.kid, self._previous.kid)

    def signer(self, purpose: Purpose) -> MacKey:
        """Key that new tokens of ``purpose`` are signed with."""
        return self._present.by_purpose[purpose] if self.sign_v2 else self._present.legacy

    def v2_key(self, kid: str, purpose: Purpose) -> MacKey | None:
        """Key that verifies a token of ``purpose`` with this ``kid``; None = unknown kid."""
        generation = self._by_kid.get(kid)
        return None if generation is None else generation.by_purpose[purpose]

    def legacy_keys(self) -> tuple[MacKey, ...]:
        """Keys that verify a token without ``kid``, in the order in which they are tried."""
        if self._previous is None:
            return (self._present.legacy,)
        return (self._present.legacy, self._previous.legacy)

    def __repr__(self) -> str:
        return f"Keyring(kids={self.kids!r}, sign_v2={self.sign_v2})"
