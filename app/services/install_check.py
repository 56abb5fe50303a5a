"""Does the browser tag work on this page? Judged by the room's settings and by what has arrived (ADM-189 … ADM-192).

No request is made to the page. Not here: HTTP, the counting of checks (visitor_counts.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from app.core.errors import InvalidField
from app.domain.origin_lists import LIST_MAX
from app.domain.origins import Origin, OriginPolicy, WebUrl, origin_text, parse_origin, parse_web_url
from app.domain.room import RoomConfig
from app.domain.url_rules import RuleSet
from app.infrastructure.pages_seen import PageSeen, PagesSeen
from app.services.room_object import RoomView
from app.services.rooms import RoomService

TAG_OLD_BELOW: Final = (1, 4, 0)
"""Tags before this one told less (PAG-214)."""


class InstallCheck:
    """Answers about installations."""

    def __init__(self, *, rooms: RoomService, pages: PagesSeen) -> None:
        self._rooms = rooms
        self._pages = pages

    async def look(self, room_id: str, query: Mapping[str, str]) -> dict[str, Any]:
        """Answer to ``?url=…[&origin=…]``. Raises NoRoom, InvalidField, StorageUnavailable."""
        view = await self._rooms.view(room_id)
        url, origin = _asked(query)
        config = view.room.config
        trial = RuleSet(config.rules).trial(url)
        seen = [page for page in await self._pages.of(view.room.id) if parse_origin(page.origin) == origin]
        answer: dict[str, Any] = {
            "roomId": view.room.id,
            "origin": origin_text(origin),
            "url": query["url"],
            "tagAllowed": OriginPolicy(config.target_url, _tag_patterns(config)).covers(origin),
            "returnAllowed": OriginPolicy(config.target_url, config.return_origins).covers(origin),
            "covered": trial.covered,
            "rule": None if trial.winner is None else config.rules[trial.winner].id,
            "lastCheckAt": seen[0].at if seen else None,
            "tagVersion": seen[0].tag if seen else None,
            "refusedChecks": _refused(view, origin),
        }
        fix = None if answer["tagAllowed"] else _fix(config, origin)
        return {**answer, "findings": list(_findings(answer, seen, view, fix)), "fix": fix}


def _asked(query: Mapping[str, str]) -> tuple[WebUrl, Origin]:
    url = parse_web_url(query.get("url", ""))
    if url is None:
        raise InvalidField("url", "url must be a full http(s) address without credentials")
    if "origin" not in query:
        return url, url.origin
    origin = parse_origin(query["origin"])
    if origin is None:
        raise InvalidField("origin", "origin must be of the form scheme://host[:port]")
    return url, origin


def _tag_patterns(config: RoomConfig) -> tuple[str, ...]:
    """Where the tag may run; as where visitors return to while nothing of its own is set (ENG-206)."""
    return config.return_origins if config.tag_origins is None else config.tag_origins


def _fix(config: RoomConfig, origin: Origin) -> dict[str, list[str]] | None:
    """The one change that lets the tag run there; never of ``returnOrigins`` (ADM-190, PAG-213)."""
    patterns = _tag_patterns(config)
    return None if len(patterns) >= LIST_MAX else {"tagOrigins": [*patterns, origin_text(origin)]}


def _refused(view: RoomView, origin: Origin) -> int:
    refused = {} if view.details is None else view.details.refused_origins
    return sum(number for text, number in refused.items() if parse_origin(text) == origin)


def _findings(
    answer: Mapping[str, Any], seen: list[PageSeen], view: RoomView, fix: Mapping[str, Any] | None
) -> Iterable[dict[str, str]]:
    """What an operator should know, most urgent first (PAG-214)."""
    origin, count = answer["origin"], answer["refusedChecks"]
    if not answer["tagAllowed"]:
        used = f" {count} checks from it were refused so far: the page is in use." if count else ""
        yield _finding("tag_origin_missing", f"The tag on this origin is refused: its pages run unprotected.{used}")
        if fix is None:
            yield _finding("tag_origins_full", f"The list has {LIST_MAX} origins already; take one out first.")
    if not answer["covered"]:
        yield _finding("page_not_covered", "No rule of the room covers this page: its visitors do not queue.")
    if not answer["returnAllowed"]:
        text = f"Released visitors are not sent back to pages of {origin}; they land on the room's targetUrl."
        yield _finding("page_origin_not_returnable", text)
    without = view.figures.checks_without_url if view.figures is not None else 0
    if without:
        text = f"{without} checks came without the address of their page, from a tag older than 1.2.0: they queue."
        yield _finding("checks_without_url", text)
    old = next((page.tag for page in seen if page.tag is not None and _is_old(page.tag)), None)
    if old is not None:
        yield _finding("old_tag", f"Pages of this origin run version {old} of the tag; 1.4.0 or later is needed.")
    if not seen and not count:
        yield _finding("no_check_seen", "No check from pages of this origin has arrived yet.")


def _finding(code: str, text: str) -> dict[str, str]:
    return {"code": code, "text": text}


def _is_old(version: str) -> bool:
    numbers = version.partition("-")[0].partition("+")[0].split(".")
    return all(map(str.isdigit, numbers)) and tuple(map(int, numbers)) < TAG_OLD_BELOW
