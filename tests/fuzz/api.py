"""A server whose whole API is sent made-up requests, and the judge of what it answers."""

from __future__ import annotations

import json
from typing import Any, Final

import requests
import schemathesis
from hypothesis import strategies as st
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.fuzz.strict import strict
from tests.harness import Server

PUBLIC_KEY: Final = "public-key-of-this-deployment"
ROOMS: Final = ("busy", "shut", "later", "open")
TARGET: Final = "https://shop.example/"
WANTS: Final[dict[str, Any]] = {"timeout": 20, "allow_redirects": False, "stream": True}
SIGNS_OF_A_TRACE: Final = ("Traceback", 'File "', "asyncpg", "redis.", "site-packages")
NO_RIGHT: Final = (None, "Bearer wrong", "Basic eDp5", "Bearer ", f"Bearer {PUBLIC_KEY}")
OF_FIELDS: Final = (
    "unknown_field", "conflicting_field", "not_in_this_build", "target_url_required", "opens_at_in_past",
)  # fmt: skip
"""Codes of the admin API that name members of the body or query, besides ``invalid_<field>``."""
CONFORMS: Final = [status_code_conformance, content_type_conformance, response_schema_conformance]


class Api:
    """The server, rooms in every state, and a few real tokens, so that made-up requests get past the first check."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.http = requests.Session()
        self.owner = {"Authorization": f"Bearer {server.admin_key}"}
        self.document = self.get("/api/admin/openapi.json").json()
        self.schema = schemathesis.openapi.from_dict(strict(self.document))
        self.tokens: list[str] = []
        self.is_furnished = False
        """The rooms are in the states of ``furnish``."""

    def get(self, path: str, **headers: str) -> requests.Response:
        """A GET as owner."""
        return self.http.get(self.server.url + path, headers={**self.owner, **headers}, timeout=20)

    def post(self, path: str, body: dict[str, Any]) -> requests.Response:
        """A POST as owner."""
        return self.http.post(self.server.url + path, json=body, headers=self.owner, timeout=20)

    def furnish(self) -> None:
        """Put the rooms into their states, whatever requests have made of them."""
        if self.is_furnished:
            return
        self.is_furnished = True
        now = self.get("/api/version").json()["startedAt"]
        for room, state in zip(ROOMS, ("active", "paused", "active", "bypass"), strict=True):
            opens_at = now + 86_400_000 if room == "later" else None
            caps = {"maxConcurrent": 3, "queueMaxPerIp": None, "preQueueMaxPerIp": None}
            body = {"id": room, "targetUrl": TARGET, "state": state, "rate": 600, "opensAt": opens_at, **caps}
            saved = self.post("/api/admin/rooms", body)
            assert saved.status_code == 200, saved.text
        for room in ROOMS[:3]:
            joined = self.http.post(f"{self.server.url}/api/join", json={"roomId": room}, timeout=20)
            self.tokens.append(joined.json()["token"])
            self.http.cookies.clear()

    def send(self, case: schemathesis.Case, authorization: str | None, headers: dict[str, str]) -> None:
        """Send one made-up request and judge its answer."""
        if authorization is not None:
            headers = {**headers, "Authorization": authorization}
        wanted = case.as_transport_kwargs(base_url=self.server.url)
        wanted["headers"] = {
            **{name: value for name, value in dict(wanted["headers"]).items() if name != "Authorization"}, **headers
        }  # fmt: skip
        self.http.cookies.clear()
        got = self.http.request(**wanted, **WANTS)
        try:
            self.judge(case, got)
        finally:
            got.close()

    def judge(self, case: schemathesis.Case, got: requests.Response) -> None:
        """Fail on a failure of the server, a trace of its inside, or an answer that the description does not have."""
        told = f"{case.as_curl_command()}\n→ {got.status_code}"
        assert got.status_code < 500 or got.status_code == 503, told
        assert got.headers.get("X-QM-Request-Id"), told
        assert got.headers.get("X-Content-Type-Options") == "nosniff", told
        kind = got.headers.get("Content-Type", "")
        if kind.startswith("text/event-stream"):
            assert got.status_code == 200, told
            return
        assert not any(sign in got.text for sign in SIGNS_OF_A_TRACE), f"{told}\n{got.text}"
        if got.status_code >= 400:
            self.judge_refusal(got, told)
        case.validate_response(Response.from_requests(got, verify=False), checks=CONFORMS)

    def judge_refusal(self, got: requests.Response, told: str) -> None:
        """A refusal is the envelope; to a navigation a page, but by the admin API the envelope all the same."""
        assert got.headers["Cache-Control"] == "no-store", told
        if got.status_code == 429 and "/connectors/" in got.url:  # whoever fetches a file is a program (PAG-048)
            assert got.headers["Content-Type"] == "text/plain; charset=utf-8", told
            return
        is_admin = "/api/admin" in got.url
        if got.request.headers.get("Sec-Fetch-Mode") == "navigate" and not is_admin:
            assert got.headers["Content-Type"] == "text/html; charset=utf-8", told
            return
        assert got.headers["Content-Type"] == "application/json; charset=utf-8", told
        body = json.loads(got.content)
        assert isinstance(body["error"], str), told
        if is_admin:
            is_of_field = body["code"] in OF_FIELDS or body["code"].startswith("invalid_")
            assert bool(body.get("fields")) == is_of_field, f"{told} {body}"
            assert ("retryAfterSec" in body) == ("Retry-After" in got.headers), told


def enliven(api: Api, case: schemathesis.Case, draw: Any) -> None:
    """Put rooms and tokens that exist where the made-up request names some."""
    room = st.sampled_from([*ROOMS, *ROOMS, None])
    token = st.sampled_from([*api.tokens, None])
    for place in (case.path_parameters, case.query, case.body):
        if not isinstance(place, dict):
            continue
        for name in place:
            new = None
            if name in ("room", "roomId", "id"):
                new = draw(room)
            elif name == "token":
                new = draw(token)
            elif name in ("n", "ticket", "q", "ref"):
                new = draw(st.sampled_from(["1", "2", "1000000", "K7Q-2MX", None]))
                new = int(new) if new and place is case.body and new.isdigit() else new
            elif name in ("url", "returnUrl", "return"):
                new = draw(st.sampled_from(["https://shop.example/checkout?a=1#b", "https://evil.example/", None]))
            if new is not None:
                place[name] = new
