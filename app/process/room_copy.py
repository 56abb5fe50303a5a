"""``python -m app rooms export | import``: the settings of all rooms as a JSON file, from one server to another.

It speaks to the admin API like anybody else, so it works over any distance and needs no store. What is imported is what
was exported: doing it twice changes nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from app.core.clock import wall_ms
from app.domain.origin_lists import RULE_READ_ONLY
from app.domain.room_fields import BY_NAME, READ_ONLY_MEMBERS

TIMEOUT_SEC: Final = 30


class _NoRedirect(HTTPRedirectHandler):
    """Follows nothing: the key is for the server that was named."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Refusal(Exception):
    """The server, or the way to it, said no; the text is for people."""


def export_rooms(url: str, key: str, file: str) -> int:
    """Write the settings of every room to ``file`` (``-`` = stdout); the exit code."""
    try:
        rooms = [settings_of(room) for room in _ask(url, key, "GET")["rooms"]]
    except Refusal as refusal:
        _say(str(refusal))
        return 1
    text = json.dumps({"rooms": rooms}, indent=1, ensure_ascii=False) + "\n"
    if file == "-":
        sys.stdout.write(text)
    else:
        Path(file).write_text(text, "utf-8")
        _say(f"{len(rooms)} rooms written to {file}")
    return 0


def import_rooms(url: str, key: str, file: str) -> int:
    """Create or change every room of ``file`` ; the exit code is 1 when one was refused."""
    try:
        rooms = _read(file)
    except (OSError, ValueError) as error:
        _say(f"{file} cannot be read: {error}")
        return 1
    failed = 0
    for room in rooms:
        body = without_past(room)
        try:
            saved = _ask(url, key, "POST", body)
        except Refusal as refusal:
            failed += 1
            _say(f"{room.get('id')}: refused: {refusal}")
            continue
        what = "created" if saved["created"] else ", ".join(saved["changed"]) or "unchanged"
        _say(f"{room['id']}: {what}" + ("" if body == room else "; its opening is over and was left out"))
    return 1 if failed else 0


def settings_of(room: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in a room object, without the facts that it reports."""
    settings = {name: room[name] for name in BY_NAME if name in room}
    settings["rules"] = [_without(rule, RULE_READ_ONLY) for rule in room["rules"]]
    for name, facts in READ_ONLY_MEMBERS.items():
        if isinstance(settings.get(name), dict):
            settings[name] = _without(settings[name], facts)
    return settings


def without_past(room: Mapping[str, Any]) -> dict[str, Any]:
    """A room without an opening that is over: no new room may have one, and where it is set it stays."""
    opens_at = room.get("opensAt")
    is_over = isinstance(opens_at, int) and opens_at <= wall_ms()
    return {name: value for name, value in room.items() if not (name == "opensAt" and is_over)}


def _without(members: Mapping[str, Any], names: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if name not in names}


def _read(file: str) -> list[dict[str, Any]]:
    found = json.loads(Path(file).read_text("utf-8"))
    rooms = found.get("rooms") if isinstance(found, dict) else None
    if not isinstance(rooms, list) or not all(isinstance(room, dict) for room in rooms):
        raise ValueError('no object with a list "rooms"')
    return rooms


def _ask(url: str, key: str, method: str, body: Mapping[str, Any] | None = None) -> Any:
    """One request to ``/api/admin/rooms``. Raises Refusal."""
    if not url.startswith(("http://", "https://")):
        raise Refusal("the address has to begin with http:// or https://")
    data = None if body is None else json.dumps(body).encode()
    request = Request(url.rstrip("/") + "/api/admin/rooms", data, method=method)  # noqa: S310 (looked at above)
    request.add_header("Authorization", f"Bearer {key}")
    try:
        with build_opener(_NoRedirect).open(request, timeout=TIMEOUT_SEC) as answer:
            return json.load(answer)
    except HTTPError as error:
        raise Refusal(_sentence(error)) from None
    except (URLError, OSError, ValueError) as error:
        raise Refusal(f"{url} does not answer as a queue: {error}") from None


def _sentence(error: HTTPError) -> str:
    try:
        told = json.load(error)
        return f"{told['error']} ({told['code']})"
    except (ValueError, KeyError, TypeError):
        return f"answer {error.code}"


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
