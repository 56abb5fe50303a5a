"""The console session over real HTTP: sign-in, cookie, CSRF, sign-out."""

from __future__ import annotations

import base64
import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from blueprints.auth import cleared_cookie, session_cookie
from tests.admin.callers import TARGET, Caller, Callers, code, session_of
from tests.harness import Server

SIGN_IN = "/api/admin/session"


@pytest.mark.req("ADM-059")
def test_it_signs_in_with_the_key_in_the_body_and_answers_who_that_is(server: Server, callers: Callers) -> None:
    answer = callers.page()("POST", SIGN_IN, {"key": server.admin_key})

    body = answer.json()
    assert (body["ok"], body["kind"], body["role"], body["name"]) == (True, "admin_key", "owner", "ADMIN_KEY")
    assert body["operatorId"] is None
    again = callers.page()
    again.keep_cookie(session_of(answer))
    me = again("GET", "/api/admin/me").json()
    assert (me["via"], me["expiresAt"]) == ("session", body["expiresAt"])
    assert server.admin_key not in base64.urlsafe_b64decode(session_of(answer).partition(".")[0] + "===").decode()


@pytest.mark.req("ADM-060")
@pytest.mark.parametrize("proto", ["http", "https"])
def test_the_cookie_is_strict_and_bound_to_the_api(server: Server, callers: Callers, proto: str) -> None:
    for path in (SIGN_IN, "/api/v1/admin/session"):
        answer = callers.page()("POST", path, {"key": server.admin_key}, headers={"X-Forwarded-Proto": proto})

        flags = "; Path=/api/admin; HttpOnly; SameSite=Strict" + ("; Secure" if proto == "https" else "")
        assert re.fullmatch(r"qm_console=[\w.-]+; Max-Age=43200" + flags, answer.headers["set-cookie"])


@pytest.mark.req("ADM-067")
@pytest.mark.parametrize("body", [{}, {"key": ""}, {"key": 5}, {"key": None}, {"key": "x" * 513}, {"key": ["x"]}])
def test_it_refuses_a_body_without_a_usable_key_and_counts_nothing(callers: Callers, body: object) -> None:
    page = callers.page()

    for _ in range(25):
        answer = page("POST", SIGN_IN, body)
        assert code(answer) == (400, "invalid_key_field")
        assert answer.json()["fields"] == ["key"]


@pytest.mark.req("ADM-067")
def test_it_refuses_further_fields_at_sign_in(server: Server, callers: Callers) -> None:
    page = callers.page()

    for _ in range(25):
        answer = page("POST", SIGN_IN, {"key": server.admin_key, "remember": True})
        assert code(answer) == (400, "unknown_field")
        assert answer.json()["fields"] == ["remember"]
        assert "set-cookie" not in answer.headers


@pytest.mark.req("ADM-065", "ADM-053")
def test_a_wrong_key_at_sign_in_is_counted_like_a_wrong_bearer(server: Server, callers: Callers) -> None:
    page = callers.page()
    wrong = {"Authorization": "Bearer wrong"}

    codes = [code(page("POST", SIGN_IN, {"key": f"wrong{n}"})) for n in range(10)]
    codes += [code(page("GET", "/api/admin/me", headers=wrong)) for _ in range(10)]

    assert codes == [(401, "unauthorized")] * 20
    assert code(page("POST", SIGN_IN, {"key": server.admin_key})) == (429, "too_many_auth_failures")


@pytest.mark.req("ADM-068")
def test_an_authorization_header_is_ignored_at_sign_in(server: Server, callers: Callers) -> None:
    page = callers.page()

    for header in (f"Bearer {server.admin_key}", "Bearer wrong", "Basic x"):
        headers = {"Authorization": header}
        assert page("POST", SIGN_IN, {"key": server.admin_key}, headers=headers).status_code == 200
        assert code(callers.page()("POST", SIGN_IN, {"key": "wrong"}, headers=headers)) == (401, "unauthorized")
        assert code(page("POST", SIGN_IN, {}, headers=headers)) == (400, "invalid_key_field")


@pytest.mark.req("ADM-077", "ADM-069", "ADM-076")
def test_no_other_page_can_command_a_session(server: Server, browser: Caller, callers: Callers, room: str) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "cross-site", "X-QM-CSRF": ""}
    fetch = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example", "X-QM-CSRF": "1"}
    sister = {"Sec-Fetch-Site": "same-site", "X-QM-CSRF": "1"}
    typed = {"Sec-Fetch-Site": "none", "X-QM-CSRF": "1"}
    acts = (
        ("POST", f"/api/admin/rooms/{room}/pause", None),
        ("POST", "/api/admin/rooms", {"id": room, "rate": 1}),
        ("DELETE", f"/api/admin/rooms/{room}", None),
        ("POST", "/api/admin/sse-ticket", None),
        ("DELETE", SIGN_IN, None),
    )

    for headers in (form, fetch, sister, typed, {"X-QM-CSRF": ""}):
        for method, path, body in acts:
            answer = browser(method, path, body, headers=headers)
            assert code(answer) == (403, "csrf_required"), (headers, path)
            assert "set-cookie" not in answer.headers
    state = browser("GET", f"/api/admin/rooms/{room}").json()["room"]
    assert (state["state"], state["rate"]) == ("active", 60)
    preflight = browser("OPTIONS", "/api/admin/rooms", headers={"Origin": "https://evil.example"})
    assert preflight.status_code == 405
    assert browser("GET", "/api/admin/me", headers={**fetch, "X-QM-CSRF": ""}).status_code == 200
    assert code(callers.with_key(None)("POST", SIGN_IN, {"key": server.admin_key})) == (403, "csrf_required")
    old_browser = callers.with_key(None, **{"X-QM-CSRF": "yes"})
    old_browser.keep_cookie(browser.http.headers["Cookie"].partition("=")[2])
    assert old_browser("POST", f"/api/admin/rooms/{room}/pause").status_code == 200


@pytest.mark.req("ADM-078")
def test_a_script_with_a_key_needs_no_csrf_header(owner: Caller, room: str) -> None:
    for site in ("cross-site", "same-site", "same-origin", "none"):
        answer = owner("POST", f"/api/admin/rooms/{room}/pause", headers={"Sec-Fetch-Site": site})
        assert answer.status_code == 200


@pytest.mark.req("ADM-076", "ADM-296")
def test_another_page_can_use_up_nobodys_failures(server: Server, callers: Callers) -> None:
    victim = callers.with_key(None, **{"Sec-Fetch-Site": "cross-site"})

    for _ in range(30):
        assert code(victim("GET", "/api/admin/events?ticket=x")) == (403, "csrf_required")
        assert code(victim("POST", SIGN_IN, {"key": "wrong"})) == (403, "csrf_required")
        assert code(victim("POST", SIGN_IN, {"key": "wrong"}, headers={"X-QM-CSRF": "1"})) == (403, "csrf_required")
    good = {"Authorization": f"Bearer {server.admin_key}"}
    assert victim("GET", "/api/admin/me", headers=good).status_code == 200


def test_a_session_reads_and_writes_like_its_key(browser: Caller, room: str) -> None:
    assert browser("GET", "/api/admin/rooms").status_code == 200
    assert browser("HEAD", "/api/admin/rooms").status_code == 200
    assert browser("POST", "/api/admin/rooms", {"id": room, "maxConcurrent": 3}).json()["changed"] == ["maxConcurrent"]
    assert browser("POST", f"/api/admin/rooms/{room}/rate", {"rate": 3}).status_code == 200
    made = browser("POST", "/api/admin/rooms", {"id": room + "-x", "targetUrl": TARGET})
    assert made.json()["created"] is True
    assert browser("DELETE", f"/api/admin/rooms/{room}-x").json()["ok"] is True


@pytest.mark.req("ADM-069")
def test_it_signs_out_for_every_worker_and_clears_the_cookie(server: Server, browser: Caller, callers: Callers) -> None:
    answer = browser("DELETE", SIGN_IN)

    assert answer.json() == {"ok": True}
    assert answer.headers["set-cookie"] == "qm_console=; Max-Age=0; Path=/api/admin; HttpOnly; SameSite=Strict"
    for _ in range(8):
        thief = callers.page()
        thief.keep_cookie(browser.http.headers["Cookie"].partition("=")[2])
        gone = thief("GET", "/api/admin/me", headers={"Connection": "close"})
        assert code(gone) == (401, "unauthorized")
        assert gone.headers["set-cookie"].startswith("qm_console=; Max-Age=0; Path=/api/admin")
    assert browser("DELETE", SIGN_IN).json() == {"ok": True}
    assert callers.page()("DELETE", SIGN_IN).json() == {"ok": True}
    script = callers.with_key(server.admin_key)
    assert script("DELETE", SIGN_IN).json() == {"ok": True}
    assert code(callers.with_key("wrong")("DELETE", SIGN_IN)) == (401, "unauthorized")


def test_only_a_failed_cookie_is_cleared(server: Server, browser: Caller) -> None:
    for header in ("Bearer wrong", "Bearer", "Basic x"):
        answer = browser("GET", "/api/admin/me", headers={"Authorization": header})
        assert code(answer) == (401, "unauthorized")
        assert "set-cookie" not in answer.headers
    assert "set-cookie" not in browser("GET", "/api/admin/events?ticket=x").headers
    assert "set-cookie" not in browser("GET", "/api/admin/me?key=x").headers
    assert browser("GET", "/api/admin/me").json()["via"] == "session"
    browser.keep_cookie("forged.forged")
    assert "set-cookie" in browser("GET", "/api/admin/me").headers


def test_a_header_decides_alone_beside_a_cookie(server: Server, browser: Caller, room: str) -> None:
    by_key = {"Authorization": f"Bearer {server.admin_key}", "X-QM-CSRF": "", "Sec-Fetch-Site": "cross-site"}

    assert browser("GET", "/api/admin/me", headers=by_key).json()["via"] == "bearer"
    assert browser("POST", f"/api/admin/rooms/{room}/pause", headers=by_key).status_code == 200
    browser.keep_cookie("forged.forged")
    assert browser("GET", "/api/admin/me", headers=by_key).status_code == 200


def test_visitors_routes_never_read_the_session_as_a_ticket(browser: Caller, room: str) -> None:
    payload = base64.urlsafe_b64encode(json.dumps({"room": room}).encode()).decode().rstrip("=")
    browser.keep_cookie(payload + ".x")

    answer = browser("GET", f"/api/status?room={room}")

    assert "qm_console" not in answer.headers.get("set-cookie", "")


@pytest.mark.req("ADM-060", "INL-071")
@pytest.mark.parametrize("is_inline", [False, True])
@pytest.mark.parametrize(("secure", "scheme", "flagged"), [
    (None, "http", False), (None, "https", True), (True, "http", True), (True, "https", True), (False, "http", False),
    (False, "https", False),
])  # fmt: skip
def test_the_cookie_goes_where_the_console_is_and_is_secure_as_set(
    secure: bool | None, scheme: str, flagged: bool, is_inline: bool
) -> None:
    request: Any = SimpleNamespace(
        ctx=SimpleNamespace(client=SimpleNamespace(scheme=scheme), inline=object() if is_inline else None)
    )
    path = "/__qm/api/admin" if is_inline else "/api/admin"
    flags = f"Path={path}; HttpOnly; SameSite=Strict" + ("; Secure" if flagged else "")

    assert session_cookie("x.y", request, secure=secure) == f"qm_console=x.y; Max-Age=43200; {flags}"
    assert cleared_cookie(request, secure=secure) == f"qm_console=; Max-Age=0; {flags}"
