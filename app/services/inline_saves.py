"""What a save may do to where a room takes its traffic from and sends it (04, section 1; 05, ADM-138 … ADM-145).

Belongs here: refusals and warnings that need other rooms, settings, the caller's role or a resolver. Not here: the form
of a value (domain/inline/proxy_origin.py). Nothing is changed by any of it (INL-012). Needs a second reviewer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from app.core.errors import BadRequest, Forbidden, QmError
from app.core.settings import Settings
from app.domain.actor import Actor
from app.domain.hosts import UNTOLD
from app.domain.inline.hosts import host_name, is_literal
from app.domain.inline.proxy_origin import is_private_literal, loops, origin_of, public_place, same_host_rooms
from app.domain.origins import Origin, parse_web_url
from app.domain.roles import Role
from app.domain.room import Room, RoomConfig
from app.infrastructure.address_guard import AddressGuard, AddressRefused, NotResolved
from app.services.step_up import StepUpRequired

RESOLVE_SEC: Final = 2.0
JUDGED: Final = ("target_url", "proxy_origin")
"""The two values that together decide whose traffic this server takes and where it goes."""
_NAMES: Final = {"target_url": "targetUrl", "proxy_origin": "proxyOrigin"}
_MAY_EDIT: Final = "The other settings of this room can still be edited."
_MAY_CREATE: Final = "It can still be created as a snippet room, without proxyOrigin."

Warnings = list[Mapping[str, Any]]


class InlineRequiresOwner(Forbidden):
    """403 ``inline_requires_owner`` (INL-015, INL-017)."""

    code = "inline_requires_owner"

    def __init__(self, fields: list[str], *, creating: bool) -> None:
        rest = _MAY_CREATE if creating else _MAY_EDIT
        super().__init__(
            f"Only an owner can change where an inline room takes its traffic from and sends it to. {rest}",
            fields=fields,
        )
        self.creating = creating


class OriginConflict(QmError):
    """409: one host cannot have two origins (INL-011)."""

    status = 409
    code = "proxy_origin_conflict"


class InlineSaves:
    """Judges saves. ``rooms``: all rooms as this process knows them."""

    def __init__(self, *, settings: Settings, guard: AddressGuard, rooms: Callable[[], Iterable[Room]]) -> None:
        self._settings = settings
        self._guard = guard
        self._rooms = rooms

    @staticmethod
    def concerns(before: RoomConfig | None, after: RoomConfig) -> bool:
        """Tell whether the save rests on the other rooms, so that no two such saves may be judged at once."""
        is_inline = after.is_inline or (before is not None and before.is_inline)
        return is_inline and bool(_changed(before, after))

    async def judge(
        self, before: RoomConfig | None, after: RoomConfig, *, actor: str, host: str, confirmed: bool
    ) -> Warnings:
        """Refuse the save, or say what it brings with it. ``host``: what the caller's request was sent to;
        ``confirmed`` False: the caller would have to present his key again to change what only an owner may (ADM-298).

        Raises Forbidden (InlineRequiresOwner, StepUpRequired), BadRequest, OriginConflict.
        """
        changed = _changed(before, after)
        if not self.concerns(before, after):
            return []
        if isinstance(actor, Actor) and actor.role is not None and actor.role != Role.OWNER.word:
            raise InlineRequiresOwner([_NAMES[key] for key in changed], creating=before is None)
        if not confirmed:
            raise StepUpRequired
        self._refuse_loops(after)
        self._refuse_conflict(after)
        return [*await self._address_warnings(after, changed), *self._host_warnings(before, after, host)]

    def _refuse_loops(self, after: RoomConfig) -> None:
        """INL-008 … INL-010: neither may this room's origin lead to a public host, nor another room's to this one's."""
        others = [room.config for room in self._rooms() if room.id != after.id and room.config.is_inline]
        own = origin_of(after)
        if own is not None:
            places = [place for other in (after, *others) if (place := public_place(other)) is not None]
            if (found := loops(own, [*places, *self._own_places()])) is not None:
                sentence = f"proxyOrigin points back at the public host {found}"
                raise BadRequest(sentence, code="proxy_origin_loop", fields=["proxyOrigin"])
        place = public_place(after) if after.is_inline else None
        for other in others:
            origin = origin_of(other)
            if origin is not None and place is not None and loops(origin, [place]) is not None:
                sentence = f"The proxyOrigin of room {other.id} would point back at {place[0]}"
                raise BadRequest(sentence, code="proxy_origin_loop", fields=["targetUrl"])

    def _own_places(self) -> list[tuple[str, int | None]]:
        settings = self._settings
        found: list[tuple[str, int | None]] = [(settings.host.strip("[]").lower(), settings.port)]
        if settings.port and settings.host in ("0.0.0.0", "::", "127.0.0.1", "localhost"):  # noqa: S104 (compared)
            found += [("127.0.0.1", settings.port), ("localhost", settings.port), ("[::1]", settings.port)]
        if settings.public_url and (url := parse_web_url(settings.public_url)) is not None:
            found.append((host_name(url.origin.host), url.origin.port))
        found += [(host_name(entry), None) for entry in settings.admin_host]
        return found

    def _refuse_conflict(self, after: RoomConfig) -> None:
        if not after.is_inline:
            return
        for other in same_host_rooms(after, (room.config for room in self._rooms())):
            if other.proxy_origin != after.proxy_origin:
                place = public_place(after)
                name = place[0] if place else ""
                sentence = f"{name} already forwards to {other.proxy_origin} (room {other.id})"
                raise OriginConflict(sentence, fields=["proxyOrigin"])

    async def _address_warnings(self, after: RoomConfig, changed: list[str]) -> Warnings:
        """INL-032, INL-033: what the address says by its text, and what its name resolves to now."""
        origin = origin_of(after)
        if origin is None or "proxy_origin" not in changed:
            return []
        if not self._settings.proxy_allow_private and is_private_literal(origin):
            raise _private()
        try:
            async with asyncio.timeout(RESOLVE_SEC):
                await self._guard.addresses(origin.host.strip("[]"), origin.port)
        except AddressRefused:
            raise _private() from None
        except (NotResolved, TimeoutError):
            return [_unresolved(origin)]
        return []

    def _host_warnings(self, before: RoomConfig | None, after: RoomConfig, host: str) -> Warnings:
        name = host_name(host)
        rooms = [room.config for room in self._rooms() if room.id != after.id]
        settings = self._settings
        warnings: Warnings = []
        is_first = after.is_inline and not (before is not None and before.is_inline)
        is_first = is_first and not any(room.is_inline for room in rooms)
        if is_first and not settings.admin_host and not settings.public_url and name and not is_literal(name):
            message = (
                f"From the next request on the console and every monitor link on {name} answer 404. "
                "Set ADMIN_HOST or PUBLIC_URL to this name and restart."
            )
            warnings.append({"code": "console_host_withheld", "host": name, "message": message})
        if before is not None and self._leaves(before, after, rooms, name):
            warnings.append(self._left(name))
        return warnings

    def left_behind(self, deleted: RoomConfig, host: str) -> Warnings:
        """What the deletion of a room does to the console on ``host``, to which it was sent."""
        name = host_name(host)
        rooms = [room.config for room in self._rooms() if room.id != deleted.id]
        return [self._left(name)] if self._leaves(deleted, None, rooms, name) else []

    def _left(self, name: str) -> Mapping[str, Any]:
        public_url = self._settings.public_url
        console = f"{public_url.rstrip('/')}/" if public_url else None
        message = f"No room is inline on {name} any longer: the console is no more below /__qm there."
        if console is None:
            message = f"{message} {UNTOLD}"
        return {"code": "inline_host_left", "console": console, "message": message}

    @staticmethod
    def _leaves(before: RoomConfig, after: RoomConfig | None, rooms: list[RoomConfig], asked: str) -> bool:
        """Tell whether the host that was asked has lost its last inline room (INL-023). ``after`` None: deleted."""
        place = public_place(before) if before.is_inline else None
        if place is None or place[0] != asked:
            return False
        is_still = after is not None and after.is_inline and public_place(after) == place
        return not is_still and not same_host_rooms(before, rooms if after is None else [*rooms, after])


def _changed(before: RoomConfig | None, after: RoomConfig) -> list[str]:
    """Which of the two values the save changes; spellings of one address are equal (INL-016)."""
    if before is None:
        return [key for key in JUDGED if getattr(after, key) is not None]
    return [key for key in JUDGED if _plain(getattr(before, key)) != _plain(getattr(after, key))]


def _plain(value: str | None) -> str | None:
    if value is None:
        return None
    url = parse_web_url(value)
    return value if url is None else url.text()


def _private() -> BadRequest:
    return BadRequest(
        "proxyOrigin is an internal address; set PROXY_ALLOW_PRIVATE=1 if the app is on your LAN",
        code="proxy_origin_private",
        fields=["proxyOrigin"],
    )


def _unresolved(origin: Origin) -> Mapping[str, Any]:
    message = f"{origin.host} does not resolve at present; until it does, visitors get an error page."
    return {"code": "proxy_origin_unresolved", "message": message, "field": "proxyOrigin"}
