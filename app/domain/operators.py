"""Named operators and monitor links: what is kept of each, the form of an operator's key, and what proves it.

Belongs here: records, keys, verifiers. Not here: where they are kept (infrastructure/access_store.py), who may make
them (services/operators.py). Pure: time and randomness are handed in or come from ``secrets``. Source: ADM-202,
ADM-203, ADM-218, ADM-231, CFG-146, CFG-152, ENG-097. Needs a second reviewer.
"""

from __future__ import annotations

import re
import secrets
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Final

from app.domain.keyring import Keyring, MacKey, Purpose
from app.domain.roles import Role

SECRET_BYTES: Final = 32
HOLDER_BYTES: Final = 32
OPERATORS_MAX: Final = 500
LINKS_MAX: Final = 500
LINK_KEPT_MS: Final = 30 * 86_400_000
"""How long a link that is over stays in the list (ADM-235)."""
_KEY: Final = re.compile(r"qmo_([0-9a-f]{8})_([A-Za-z0-9_-]{43})").fullmatch
_LINK_ID: Final = re.compile(r"m_[0-9a-f]{8}").fullmatch
_DOMAIN: Final = b"qm:operator\0"
"""Before the key in what is signed. A legacy signature does not say what it is for; no token has a NUL in it."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator's record. Times are epoch ms."""

    id: str
    name: str
    role: Role
    verifier: str = field(repr=False)
    verifier_before: str | None = field(repr=False)
    holder: bytes = field(repr=False)
    """Second secret of his console sessions (ADM-295)."""
    created_at: int
    created_by: str
    last_used_at: int | None = None
    last_used_ip: str | None = None
    revoked_at: int | None = None
    revoked_by: str | None = None


@dataclass(frozen=True, slots=True)
class MonitorLink:
    """One shared link's record. ``created_by_id`` None: made with ADMIN_KEY (ADM-232)."""

    id: str
    label: str
    created_at: int
    created_by: str
    created_by_id: str | None
    expires_at: int
    revoked_at: int | None = None
    revoked_by: str | None = None
    last_used_at: int | None = None

    def state(self, now: int) -> str:
        """``live``, ``revoked`` or ``expired``."""
        if self.revoked_at is not None:
            return "revoked"
        return "live" if now < self.expires_at else "expired"


def new_key() -> tuple[str, str]:
    """Id and whole key of a new operator."""
    ident = secrets.token_hex(4)
    return ident, f"qmo_{ident}_{secrets.token_urlsafe(SECRET_BYTES)}"


def new_link_id() -> str:
    """Id of a new monitor link."""
    return "m_" + secrets.token_hex(4)


def operator_of_key(key: str) -> str | None:
    """Id that an operator's key names; None when it has not the form of one."""
    match = _KEY(key)
    return None if match is None else match[1]


def is_link_id(text: object) -> bool:
    """Tell whether ``text`` has the form of a link's id."""
    return isinstance(text, str) and _LINK_ID(text) is not None


class Verifiers:
    """Makes and judges the verifiers of operators' keys.

    A verifier is a keyed digest: ``<mac>`` in the legacy form, ``<kid>.<mac>`` in the v2 form (CFG-145). It proves a
    key of 256 random bits and gives nothing away about it.
    """

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._sham = self.make("qmo_00000000_" + secrets.token_urlsafe(SECRET_BYTES))

    def make(self, key: str) -> str:
        """Verifier of ``key`` under the present SECRET, in the form that ``TOKEN_SIGN_V2`` chooses."""
        mac = _mac(self._keyring.signer(Purpose.OPERATOR), key)
        return f"{self._keyring.kid}.{mac}" if self._keyring.sign_v2 else mac

    def judge(self, key: str, operator: Operator | None) -> bool:
        """Tell whether ``key`` is the operator's. With no operator it costs the same and is False (ADM-041)."""
        first = self._sham if operator is None else operator.verifier
        second = first if operator is None else operator.verifier_before or first
        found = False
        for own in self._all(key):
            found |= compare_digest(own, first)
            found |= compare_digest(own, second)
        return found and operator is not None

    def renewed(self, key: str, operator: Operator) -> str | None:
        """The verifier that has to take the place of the stored one now that ``key`` was seen; None = it is right.

        Brought to the present SECRET, and from legacy to v2 where that is written, never back (ADM-218). One that fits
        only by ``verifier_before`` was renewed by an instance with a newer SECRET, and is left alone.
        """
        own = self._all(key)
        fits = [compare_digest(one, operator.verifier) for one in own]
        if not any(fits):
            return None
        is_v2 = "." in operator.verifier
        present = f"{self._keyring.kid}.{_mac(self._v2(self._keyring.kid), key)}" if is_v2 else self.make(key)
        return None if compare_digest(present, operator.verifier) else present

    def _all(self, key: str) -> list[str]:
        """Every verifier of ``key`` that may be stored: both forms under both secrets."""
        v2 = [f"{kid}.{_mac(self._v2(kid), key)}" for kid in self._keyring.kids]
        return v2 + [_mac(legacy, key) for legacy in self._keyring.legacy_keys()]

    def _v2(self, kid: str) -> MacKey:
        key = self._keyring.v2_key(kid, Purpose.OPERATOR)
        assert key is not None
        return key


def _mac(key: MacKey, text: str) -> str:
    return urlsafe_b64encode(key.sign(_DOMAIN + text.encode())).rstrip(b"=").decode()
