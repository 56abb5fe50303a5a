"""Signed tokens: ``base64url(JSON payload) "." base64url(HMAC-SHA256)``, in the legacy and the v2 form.

Belongs here: writing, verifying and reading of tokens, with the cause of each refusal. Not here: who owns a
ticket (fingerprint.py and the engine), keys (keyring.py). Pure: the time is handed in. Source: ENG-080 … ENG-092,
ENG-292. Needs a second reviewer.
"""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64
from enum import StrEnum
from hmac import compare_digest
from typing import Any, Final, NamedTuple, TypeGuard

import ujson

from app.domain.keyring import Keyring, MacKey, Purpose

MAX_TOKEN_CHARS: Final = 4096
MAX_FUTURE_MS: Final = 60_000
"""How far another instance's clock may be ahead (ENG-089)."""
MAX_NUMBER: Final = 0xFFFF_FFFF
"""Largest generation and ticket number: both are 32-bit in the engine's records."""
KNOWN_MAX: Final = 20_000
"""Good tokens whose claims a process remembers, about 9 MB; a page shows its token every 5 s."""
_MAX_IAT: Final = 1 << 48
_TO_URL: Final = bytes.maketrans(b"+/", b"-_")
_FROM_URL: Final = bytes.maketrans(b"-_", b"+/")
_FORM: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+").fullmatch
_HANDLE: Final = re.compile(r"[A-Za-z0-9_-]{22}").fullmatch


class Cause(StrEnum):
    """Why a token was refused (ENG-092); the words are metric labels."""

    MALFORMED = "malformed"
    BAD_SIGNATURE = "bad_signature"
    UNKNOWN_KID = "unknown_kid"
    WRONG_ROOM = "wrong_room"
    EXPIRED = "expired"
    FUTURE = "future"


class Claims(NamedTuple):
    """What a good visitor token says. Exactly one of ``ticket`` (> 0) and ``handle`` (not empty) is set."""

    room: str
    generation: int
    ticket: int
    handle: str
    iat: int
    """Time of issue, epoch ms."""


class SignedTokens:
    """Signs and opens the tokens of one purpose. Makes no judgement of the payload: callers check ``scope``."""

    __slots__ = ("_keyring", "_kid", "_legacy", "_purpose", "_signer")

    def __init__(self, keyring: Keyring, purpose: Purpose) -> None:
        self._keyring = keyring
        self._purpose = purpose
        self._legacy = keyring.legacy_keys()
        self._signer = keyring.signer(purpose)
        self._kid = keyring.kid if keyring.sign_v2 else ""

    def sign(self, payload: dict[str, Any]) -> str:
        """Token of ``payload``, in the form that ``TOKEN_SIGN_V2`` chooses. ``kid`` is added here."""
        if self._kid:
            payload = {**payload, "kid": self._kid}
        return self.seal(ujson.dumps(payload, escape_forward_slashes=False).encode())

    def seal(self, payload: bytes) -> str:
        """Token of a payload that is already JSON, with ``kid`` in it where the form asks for it."""
        body = b2a_base64(payload, newline=False).translate(_TO_URL).rstrip(b"=")
        return (body + b"." + _encode_mac(self._signer, body)).decode()

    def open(self, token: str) -> dict[str, Any] | Cause:
        """The payload of a token whose form and signature are good, or the cause of its refusal."""
        if len(token) > MAX_TOKEN_CHARS or _FORM(token) is None:
            return Cause.MALFORMED
        body, _, mac = token.encode().partition(b".")
        if len(body) & 3 == 1 or len(mac) & 3 == 1:
            return Cause.MALFORMED
        payload = _decode(body)
        if payload is None or "kid" not in payload:
            return self._judge(payload, body, mac, self._legacy, Cause.BAD_SIGNATURE)
        kid = payload["kid"]
        key = self._keyring.v2_key(kid, self._purpose) if type(kid) is str else None
        return self._judge(payload, body, mac, () if key is None else (key,), Cause.UNKNOWN_KID)

    def _judge(
        self, payload: dict[str, Any] | None, body: bytes, mac: bytes, keys: tuple[MacKey, ...], without_key: Cause
    ) -> dict[str, Any] | Cause:
        for key in keys:
            if compare_digest(mac, _encode_mac(key, body)):
                return Cause.MALFORMED if payload is None else payload
        return Cause.BAD_SIGNATURE if keys else without_key


class VisitorTokens:
    """Tickets as tokens: what the cookie ``qm_<room>``, ``qm_token`` and the JSON member ``token`` carry."""

    __slots__ = ("_kid", "_known", "_max_age_ms", "_signed", "refresh_after_ms")

    def __init__(self, keyring: Keyring, *, max_age_sec: int, cookie_max_age_sec: int) -> None:
        """``max_age_sec``: ``TOKEN_MAX_AGE_SEC``. ``cookie_max_age_sec``: ``QUEUE_COOKIE_MAX_AGE_SEC``."""
        self._signed = SignedTokens(keyring, Purpose.VISITOR)
        self._known: dict[str, Claims] = {}
        self._kid = f',"kid":"{keyring.kid}"' if keyring.sign_v2 else ""
        self._max_age_ms = max_age_sec * 1000
        self.refresh_after_ms = min(max_age_sec, cookie_max_age_sec) * 500
        """Age in ms from which an owner's token is signed anew (ENG-091)."""

    def sign(self, room: str, generation: int, ticket: int, now_ms: int) -> str:
        """Token of a ticket, issued at ``now_ms``. ``room`` is a room id: it needs no escapes in JSON."""
        payload = f'{{"room":"{room}","gen":{generation},"ticket":{ticket},"iat":{now_ms}{self._kid}}}'
        return self._signed.seal(payload.encode())

    def sign_handle(self, room: str, generation: int, handle: str, now_ms: int) -> str:
        """Token of a place in a pre-queue; ``handle``: the 22 characters of ``handle_text``."""
        payload = f'{{"room":"{room}","gen":{generation},"handle":"{handle}","iat":{now_ms}{self._kid}}}'
        return self._signed.seal(payload.encode())

    def verify(self, token: str, room: str | None, now_ms: int) -> Claims | Cause:
        """What ``token`` says, or why it is refused, checked in the order of ENG-092.

        ``room`` None: the token itself tells the room (``/api/status`` without ``room``).
        """
        claims = self._known.get(token) or self._read(token)
        if isinstance(claims, Cause):
            return claims
        if room is not None and claims.room != room:
            return Cause.WRONG_ROOM
        if claims.iat - now_ms > MAX_FUTURE_MS:
            return Cause.FUTURE
        if now_ms - claims.iat > self._max_age_ms:
            return Cause.EXPIRED
        return claims

    def _read(self, token: str) -> Claims | Cause:
        """Claims of a token whose signature is good, remembered; only holders of good tokens can fill the memory."""
        payload = self._signed.open(token)
        if isinstance(payload, Cause):
            return payload
        claims = _read_claims(payload)
        if claims is None:
            return Cause.MALFORMED
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[token] = claims
        return claims

    def good_until(self, claims: Claims) -> int:
        """Last moment (epoch ms) at which a token that was accepted once is accepted."""
        return claims.iat + self._max_age_ms

    def fresh_until(self, claims: Claims) -> int:
        """Last moment (epoch ms) at which ``is_due`` is not true."""
        return claims.iat + self.refresh_after_ms - 1

    def is_due(self, claims: Claims, now_ms: int) -> bool:
        """Tell whether an owner's token is old enough to be signed anew (ENG-091)."""
        return now_ms - claims.iat >= self.refresh_after_ms


def handle_text(handle: bytes) -> str:
    """A handle of 16 bytes as tokens carry it (ENG-088)."""
    return b2a_base64(handle, newline=False).translate(_TO_URL).rstrip(b"=").decode()


def handle_bytes(text: str) -> bytes:
    """Reverse of ``handle_text``."""
    return a2b_base64(text.encode().translate(_FROM_URL) + b"==")


def _encode_mac(key: MacKey, body: bytes) -> bytes:
    """Signature as it stands in a token: 43 characters. Comparing these refuses non-canonical spellings too."""
    return b2a_base64(key.sign(body), newline=False).translate(_TO_URL)[:43]


def _decode(body: bytes) -> dict[str, Any] | None:
    """JSON object of a token's first part; None = it is none. Read before the signature only to find ``kid``."""
    try:
        payload = ujson.loads(a2b_base64(body.translate(_FROM_URL) + b"=="))
    except (ValueError, RecursionError):
        return None
    return payload if isinstance(payload, dict) else None


def _read_claims(payload: dict[str, Any]) -> Claims | None:
    """Claims of a visitor payload (ENG-088, ENG-292); None = a member is missing, ill-typed or foreign."""
    room, generation, iat = payload.get("room"), payload.get("gen"), payload.get("iat")
    if "scope" in payload or type(room) is not str or not _is_number(generation) or type(iat) is not int:
        return None
    if not 0 <= iat < _MAX_IAT:
        return None
    if "handle" not in payload:
        ticket = payload.get("ticket")
        return Claims(room, generation, ticket, "", iat) if _is_number(ticket) else None
    handle = payload["handle"]
    if "ticket" in payload or type(handle) is not str or _HANDLE(handle) is None:
        return None
    return Claims(room, generation, 0, handle, iat)


def _is_number(value: object) -> TypeGuard[int]:
    """Tell whether ``value`` can be a ticket or generation number; ``True`` is none."""
    return type(value) is int and 0 < value <= MAX_NUMBER
