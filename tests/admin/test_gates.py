"""The order of checks before an admin act, and what a server that is killed still knows of access."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.admin.callers import TARGET, Caller, Callers, code
from tests.admin.test_http_operators import entries, made
from tests.harness import Server

EDGE = "edge-secret-of-this-deployment-0001"
HOST = "queue.example"
SESSION = "/api/admin/session"


class Gated(Callers):
    """Callers who come through the edge to the console's host, each from an address of its own."""

    def with_key(self, key: str | None, **headers: str) -> Caller:
        caller = super().with_key(key, **headers)
        address = caller.http.headers.pop("X-Forwarded-For")
        caller.http.headers.update({"X-QM-Edge": EDGE, "CF-Connecting-IP": address, "Host": HOST})
        return caller


@pytest.fixture(scope="module")
def gated_server() -> Iterator[Server]:
    """A server with an edge secret, a host for its console, small budgets, no public key, and stores that stay."""
    env: dict[str, str | None] = {
        "STORE": "embedded",
        "EDGE_SECRET": EDGE,
        "ADMIN_HOST": HOST,
        "ADMIN_AUTH_FAIL_PER_MIN": "3",
        "WAITING_LIMIT_PER_MIN": "2",
        "PUBLIC_API_KEY": None,
    }
    with Server(env=env, workers=2) as server:
        yield server


@pytest.fixture
def gated(gated_server: Server) -> Iterator[Gated]:
    callers = Gated(gated_server)
    yield callers
    callers.close()


def bare(answer: httpx.Response) -> bool:
    return (answer.status_code, answer.content) == (404, b"")


@pytest.mark.req("ADM-009", "ADM-008")
def test_the_first_check_that_fails_decides(gated_server: Server, gated: Gated) -> None:
    owner = gated.with_key(gated_server.admin_key)
    viewer = made(owner, "viewer", "Gate")
    path, away, no_edge = "/api/admin/rooms/nope/state", {"Host": "elsewhere.example"}, {"X-QM-Edge": ""}
    wrong = gated.with_key("wrong")
    # 1 edge, 2 host: neither a key nor its failures count for anything there
    for caller in (owner, wrong, gated.with_key(None)):
        for headers in (no_edge, {**no_edge, **away}, {"X-QM-Edge": "guess"}):
            assert code(caller("POST", path, b"{", headers=headers)) == (403, "edge_required")
        for _ in range(5):
            assert bare(caller("POST", path, b"{", headers=away))
            assert bare(caller("GET", "/api/v1/admin/me?key=x", headers=away))
    # 3 lock
    assert [wrong("GET", "/api/admin/me").status_code for _ in range(4)] == [401, 401, 401, 429]
    assert bare(wrong("GET", "/api/admin/me", headers=away))
    assert code(wrong("POST", f"{path}?key=x", b"{")) == (429, "too_many_auth_failures")
    # 4 key in the address, 5 credential
    other = gated.with_key("another-wrong-one")
    assert code(other("POST", f"{path}?key=x", b"{")) == (401, "credential_in_query")
    forged = gated.with_key(None)
    forged.keep_cookie("forged.forged")
    assert code(forged("POST", path, b"{")) == (401, "unauthorized")
    # 6 forgery, 7 role, 8 path and body, 9 the act
    page = gated.signed_in(viewer["key"])
    assert code(page("POST", path, b"{", headers={"X-QM-CSRF": ""})) == (403, "csrf_required")
    assert code(page("POST", path, b"{")) == (403, "insufficient_role")
    assert code(owner("POST", f"{path}?zzz=1", b"{")) == (400, "unknown_field")
    assert code(owner("POST", path, b"{")) == (400, "bad_json")
    assert code(owner("POST", path, {"state": "paused"})) == (404, "no_room")
    # where the credential stands in the body, forgery comes first
    stranger = gated.with_key(None)
    for _ in range(5):
        assert code(stranger("POST", SESSION, {"key": "wrong"})) == (403, "csrf_required")
    assert stranger("POST", SESSION, {"key": gated_server.admin_key}, headers={"X-QM-CSRF": "1"}).status_code == 200


@pytest.mark.req("ADM-020", "ADM-021")
def test_the_page_throttle_does_not_touch_the_admin_api(gated_server: Server, gated: Gated) -> None:
    owner = gated.with_key(gated_server.admin_key)

    assert [owner("GET", "/").status_code for _ in range(4)][2:] == [429, 429]

    assert {owner("GET", "/api/admin/me").status_code for _ in range(400)} == {200}


@pytest.mark.req("ADM-032")
def test_without_a_public_key_its_doors_take_the_admin_key_and_health_says_so(
    gated_server: Server, gated: Gated
) -> None:
    owner = gated.with_key(gated_server.admin_key)
    owner("POST", "/api/admin/rooms", {"id": "doors", "targetUrl": TARGET})
    doors = ("/api/verify?room=doors", "/api/check?room=doors&ip=203.0.113.9&agent=test")

    for door in doors:
        assert owner("GET", door).status_code == 200
        assert gated.with_key("public-key-of-nobody")("GET", door).status_code == 401
        assert gated.with_key(None)("GET", "/api/verify?room=doors").status_code == 401
    assert any("PUBLIC_API_KEY" in line for line in owner("GET", "/api/admin/health").json()["hardening"])


@pytest.mark.req("ADM-054")
def test_failures_are_counted_by_the_proven_address(gated_server: Server, gated: Gated) -> None:
    """The edge's word counts on a request that proves to be the edge's; a header of an undeclared peer does not."""
    right = {"Authorization": f"Bearer {gated_server.admin_key}"}
    guesser = gated.with_key("wrong")
    for _ in range(3):
        guesser("GET", "/api/admin/me", headers={"X-Forwarded-For": "192.0.2.77"})

    assert code(guesser("GET", "/api/admin/me", headers=right)) == (429, "too_many_auth_failures")
    elsewhere = {"X-Forwarded-For": "192.0.2.78"}
    assert code(guesser("GET", "/api/admin/me", headers={**right, **elsewhere})) == (429, "too_many_auth_failures")
    assert guesser("GET", "/api/admin/me", headers={**right, "CF-Connecting-IP": "192.0.2.77"}).status_code == 200


@pytest.mark.req("ADM-291", "ADM-292", "ADM-293", "ADM-070", "ADM-216")
def test_what_was_given_and_taken_is_so_after_every_process_was_killed(gated_server: Server, gated: Gated) -> None:
    owner = gated.with_key(gated_server.admin_key)
    kept, taken, changed = (made(owner, "operator", name) for name in ("kept", "taken", "changed"))
    link, dead_link = (owner("POST", "/api/admin/monitor-tokens").json() for _ in range(2))
    page, gone = gated.signed_in(kept["key"]), gated.signed_in(kept["key"])
    assert gone("DELETE", SESSION).status_code == 200
    owner("POST", f"/api/admin/operators/{changed['operator']['id']}", {"role": "viewer"})
    owner("DELETE", f"/api/admin/monitor-tokens/{dead_link['link']['id']}")
    for room in ("stays", "ends"):
        assert owner("POST", "/api/admin/rooms", {"id": room, "targetUrl": TARGET}).status_code == 200
    owner("POST", "/api/admin/rooms", {"id": "stays", "maxConcurrent": 7})
    opens_at = owner("GET", "/api/admin/health").json()["now"] + 86_400_000
    owner("POST", "/api/admin/rooms/stays/schedule", {"opensAt": opens_at})
    owner("DELETE", "/api/admin/rooms/ends")
    last = owner("DELETE", f"/api/admin/operators/{taken['operator']['id']}")
    assert last.status_code == 200

    gated_server.kill()
    gated_server.wait()
    gated_server.start()

    again = Gated(gated_server)
    owner = again.with_key(gated_server.admin_key)

    def me(key: str) -> httpx.Response:
        return again.with_key(key)("GET", "/api/admin/me")

    assert me(kept["key"]).json()["role"] == "operator"
    assert me(changed["key"]).json()["role"] == "viewer"
    assert me(link["token"]).json()["kind"] == "monitor"
    for key in (taken["key"], dead_link["token"]):
        assert code(me(key)) == (401, "unauthorized")
    for before, status in ((page, 200), (gone, 401)):
        twin = again.page()
        twin.keep_cookie(before.http.headers["Cookie"].partition("=")[2])
        assert twin("GET", "/api/admin/me").status_code == status
    assert code(owner("POST", f"/api/admin/monitor-tokens/{dead_link['link']['id']}/reveal")) == (410, "link_not_live")
    shown = {room["id"]: room for room in owner("GET", "/api/admin/rooms").json()["rooms"]}
    assert (shown["stays"]["maxConcurrent"], shown["stays"]["opensAt"]) == (7, opens_at)
    assert "ends" not in shown
    told = [entry["action"] for entry in entries(owner, limit="30")]
    acts = [action for action in told if not action.startswith(("server.", "auth."))]  # a lock of before is told late
    assert acts[:16] == [
        "operator.revoke", "room.delete", "room.schedule", "room.update", "room.create", "room.create",
        "monitor_token.revoke", "operator.update", "session.delete", "session.create", "session.create",
        "monitor_token.mint", "monitor_token.mint", "operator.create", "operator.create", "operator.create",
    ]  # fmt: skip
    again.close()
