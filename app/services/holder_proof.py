"""Proof that something was made for the holder of a credential, by a key that only both secrets together give.

Sessions and step-up tokens carry one, so that neither the signing secret nor a copy of the stores can make them, and
a changed ADMIN_KEY ends what was made under the old one (ADM-295, WHK-114). Needs a second reviewer.
"""

from __future__ import annotations

import base64
from hmac import compare_digest

from app.core.secret import Secret
from app.domain.keyring import Keyring, MacKey, Purpose
from app.domain.operators import Operator


class HolderProofs:
    """Makes and judges them. A holder is an operator by his record, or None: whoever holds ADMIN_KEY."""

    def __init__(self, keyring: Keyring, admin_key: Secret) -> None:
        self._keyring = keyring
        self._admin_keys = self._keys(admin_key.reveal().encode())

    def make(self, record: Operator | None, text: str) -> str:
        """The proof for ``text``, by the present signing secret."""
        return _sign(self._keys_of(record)[0], text)

    def fits(self, record: Operator | None, text: str, proof: str) -> bool:
        """Tell whether ``proof`` (ASCII) is of this holder for ``text``, under any signing secret that still counts."""
        judged = [compare_digest(proof, _sign(key, text)) for key in self._keys_of(record)]
        return any(judged)

    def _keys_of(self, record: Operator | None) -> list[MacKey]:
        """Keys that prove the second secret of a holder; None: of ADMIN_KEY."""
        return self._admin_keys if record is None else self._keys(b"operator\0" + record.holder)

    def _keys(self, secret: bytes) -> list[MacKey]:
        """Keys made from each signing secret and a holder's own, the present secret first (ADM-295)."""
        purpose_keys = [self._keyring.v2_key(kid, Purpose.SESSION) for kid in self._keyring.kids]
        holder = b"qm:session-holder\0" + secret
        return [MacKey(key.sign(holder)) for key in purpose_keys if key is not None]


def _sign(key: MacKey, text: str) -> str:
    return base64.urlsafe_b64encode(key.sign(text.encode())).rstrip(b"=").decode()
