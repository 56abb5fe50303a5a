"""Monitor links: minting, showing again, revoking, listing (05, section 15).

The token of a link is stored nowhere: it is signed anew whenever it is shown. Not here: judging tokens
(named_keys.py), what a link may read, HTTP.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from app.core.errors import InvalidField, NotFound, QmError
from app.core.jsonbody import refuse_unknown
from app.domain.actor import Actor
from app.domain.field_checks import is_plain_text
from app.domain.monitor_tokens import MonitorTokens
from app.domain.operators import LINK_KEPT_MS, LINKS_MAX, MonitorLink, is_link_id, new_link_id
from app.domain.roles import Role
from app.infrastructure.access_store import AccessStore, Change
from app.infrastructure.audit_store import Entry
from app.services.operators import recorded
from app.services.people import People

LABEL_MAX: Final = 80


class NoLink(NotFound):
    """404 ``no_link``."""

    code = "no_link"
    sentence = "No such monitor link"


class LinkNotLive(QmError):
    """410 ``link_not_live``: what was taken away must not come back (ADM-227)."""

    status = 410
    code = "link_not_live"
    sentence = "This link was revoked or has expired. Make a new one."


class TooManyLinks(QmError):
    """409 ``too_many_links`` (ADM-235)."""

    status = 409
    code = "too_many_links"
    sentence = f"There are {LINKS_MAX} monitor links already. Revoke some."


class MonitorLinks:
    """Use cases. Raises StorageUnavailable; NotRecorded when a change may have taken effect."""

    def __init__(
        self, *, store: AccessStore, people: People, tokens: MonitorTokens, ttl_sec: int, now: Callable[[], int]
    ) -> None:
        """``ttl_sec``: MONITOR_TOKEN_TTL_SEC. ``now``: wall clock in epoch ms."""
        self._store = store
        self._people = people
        self._tokens = tokens
        self._ttl_sec = ttl_sec
        self._now = now

    async def listed(self) -> dict[str, Any]:
        """Every link that works or ended within 30 days, newest first; never a token (ADM-222)."""
        now = self._now()
        links = [self._json(link, now) for link in await self._store.links(now - LINK_KEPT_MS)]
        return {"links": links, "live": sum(link["state"] == "live" for link in links), "ttlSec": self._ttl_sec}

    async def mint(self, body: dict[str, Any], actor: Actor) -> tuple[dict[str, Any], str]:
        """A new link and its token (ADM-223)."""
        refuse_unknown(body, ("label",))
        label = _label(body.get("label", ""))
        async with recorded(self._store, actor, least=Role.OPERATOR) as change:
            now = self._now()
            await change.drop_links(now - LINK_KEPT_MS)
            if await change.link_count(now) >= LINKS_MAX:
                raise TooManyLinks
            ident = new_link_id()
            while await change.link(ident) is not None:
                ident = new_link_id()
            link = MonitorLink(ident, label, now, str(actor), actor.ident, now + self._ttl_sec * 1000)
            await change.add_link(link)
            await change.note(Entry(now, actor, "monitor_token.mint", _told(link)))
        await self._people.tell_changed()
        return self._json(link, now), self._tokens.sign(link, now)

    async def reveal(self, ident: str, actor: Actor) -> tuple[dict[str, Any], str]:
        """The same link again, signed under the present SECRET (ADM-226 … ADM-228)."""
        async with recorded(self._store, actor, least=Role.OPERATOR) as change:
            link, now = await _found(change, ident), self._now()
            if link.state(now) != "live":
                raise LinkNotLive
            await change.note(Entry(now, actor, "monitor_token.reveal", _told(link)))
        return self._json(link, now), self._tokens.sign(link, now)

    async def revoke(self, ident: str, actor: Actor) -> int:
        """End one link; 0 when it was over already (ADM-229, ADM-230)."""
        async with recorded(self._store, actor, least=Role.OPERATOR) as change:
            link, now = await _found(change, ident), self._now()
            revoked = await change.revoke_link(ident, now, str(actor))
            if revoked:
                await change.note(Entry(now, actor, "monitor_token.revoke", _told(link)))
        await self._people.tell_changed()
        return revoked

    async def revoke_all(self, actor: Actor) -> int:
        """End every link; how many they were."""
        async with recorded(self._store, actor, least=Role.OPERATOR) as change:
            now = self._now()
            revoked = await change.revoke_links(now, str(actor))
            if revoked:
                await change.note(Entry(now, actor, "monitor_token.revoke_all", f"{revoked} closed"))
        await self._people.tell_changed()
        return revoked

    @staticmethod
    def _json(link: MonitorLink, now: int) -> dict[str, Any]:
        return {
            "id": link.id,
            "label": link.label,
            "createdAt": link.created_at,
            "createdBy": link.created_by,
            "createdById": link.created_by_id,
            "expiresAt": link.expires_at,
            "revokedAt": link.revoked_at,
            "revokedBy": link.revoked_by,
            "state": link.state(now),
            "lastUsedAt": link.last_used_at,
        }


async def _found(change: Change, ident: str) -> MonitorLink:
    link = await change.link(ident) if is_link_id(ident) else None
    if link is None:
        raise NoLink
    return link


def _label(value: Any) -> str:
    text = value.strip() if isinstance(value, str) else None
    if text is None or len(text) > LABEL_MAX or not is_plain_text(text):
        raise InvalidField("label", f"label must be text of at most {LABEL_MAX} characters without control characters")
    return text


def _told(link: MonitorLink) -> str:
    return f"{link.id} {link.label}".rstrip()
