"""The token of a monitor link: what stands in the fragment of a shared address.

It is signed, names the link and its end, and opens nothing by itself: the link's record decides (ADM-221, ADM-222).
Not here: records (operators.py), addresses (services/monitor_links.py). Needs a second reviewer.
"""

from __future__ import annotations

from typing import Final

from app.domain.keyring import Keyring, Purpose
from app.domain.operators import MonitorLink, is_link_id
from app.domain.tokens import MAX_FUTURE_MS, SignedTokens

SCOPE: Final = "monitor"


class MonitorTokens:
    """Writes and reads the tokens of one deployment."""

    __slots__ = ("_signed",)

    def __init__(self, keyring: Keyring) -> None:
        self._signed = SignedTokens(keyring, Purpose.MONITOR)

    def sign(self, link: MonitorLink, now_ms: int) -> str:
        """Token of ``link`` under the present SECRET (ADM-228)."""
        return self._signed.sign({"scope": SCOPE, "link": link.id, "iat": now_ms, "exp": link.expires_at})

    def read(self, token: str, now_ms: int) -> str | None:
        """Id of the link that a token names; None when it is forged, over, or of another kind (ENG-292)."""
        payload = self._signed.open(token)
        if not isinstance(payload, dict) or payload.get("scope") != SCOPE:
            return None
        link, made, end = payload.get("link"), payload.get("iat"), payload.get("exp")
        if type(link) is not str or not is_link_id(link) or {"room", "ticket", "handle"} & payload.keys():
            return None
        if type(made) is not int or type(end) is not int:
            return None
        return link if made - now_ms <= MAX_FUTURE_MS and now_ms < end else None
