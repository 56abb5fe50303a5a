"""Two instances on shared stores: what is given and taken through one holds on the other, open streams included."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from redis import Redis

from tests.admin.callers import Caller, Callers, code
from tests.admin.test_http_stream import Events, stream, ticket_of
from tests.harness import Server, wait_for
from tests.run_stores import Place

SESSION = "/api/admin/session"


class Pair:
    """Two instances of one deployment, and callers of each."""

    def __init__(self, one: Server, two: Server, valkey: Redis) -> None:
        self.one, self.two, self.valkey = one, two, valkey
        self.channel = one.env["VALKEY_PREFIX"] + "ctl"
        self.at_one, self.at_two = Callers(one), Callers(two)
        self.owner = self.at_one.with_key(one.admin_key)
        self.other_owner = self.at_two.with_key(one.admin_key)

    def operator(self, role: str = "operator") -> tuple[str, str]:
        """Id and key of a new operator, made through the first instance."""
        made = self.owner("POST", "/api/admin/operators", {"name": "Night ops", "role": role})
        assert made.status_code == 201, made.text
        return made.json()["operator"]["id"], made.json()["key"]


@pytest.fixture(scope="module")
def pair(place: Place) -> Iterator[Pair]:
    """Both run two workers and look at each stream every 2 s, by copies that they confirm once a minute: what holds on
    the other within seconds was told by a hint, sent by one worker and heard by all."""
    env: dict[str, str | None] = {
        **place.env,
        "SECRET": "s" * 40,
        "ADMIN_KEY": "key-of-both-instances-of-this-test",
        "TRUST_PROXY": "1",
        "TRUST_PROXY_IPS": "127.0.0.1",
        "ADMIN_AUTH_FAIL_PER_MIN": "20",
        "PUBLIC_API_KEY": "public-key-of-both-instances",
        "RESYNC_MS": "60000",
        "PROXY_ALLOW_PRIVATE": "1",
    }
    with ExitStack() as held:
        servers = [held.enter_context(Server(env=env, workers=2)) for _ in range(2)]
        for server in servers:
            server.admin_key = str(env["ADMIN_KEY"])
        client = held.enter_context(Redis.from_url(place.valkey_url))
        pair = Pair(servers[0], servers[1], client)
        yield pair
        pair.at_one.close()
        pair.at_two.close()


def ends_with_revoked(events: Events) -> bool:
    """Read to the end; True when the last event was ``revoked``."""
    last = None
    while (event := events.next()) is not None:
        last = event
    return last == {"event": "revoked", "data": '{"error":"unauthorized"}'}


@pytest.mark.req("ADM-101", "ADM-103", "ADM-104", "ADM-207", "FLT-031", "FLT-039", "FLT-028")
def test_revoking_an_operator_ends_his_key_session_and_streams_on_both(pair: Pair) -> None:
    ident, key = pair.operator()
    by_key, page = pair.at_two.with_key(key), pair.at_two.signed_in(key)
    minted = by_key("POST", "/api/admin/monitor-tokens", {"label": "of the operator"}).json()
    watcher = pair.at_two.with_key(minted["token"])
    bystander = pair.at_two.with_key(pair.operator()[1])
    callers = (by_key, page, watcher)
    for caller in callers:
        assert caller("GET", "/api/admin/me").status_code == 200
    local = pair.at_one.with_key(key)

    with ExitStack() as held:
        streams = [held.enter_context(stream(caller)) for caller in (by_key, page, watcher, local)]
        by_ticket = held.enter_context(stream(pair.at_two.with_key(None), f"?ticket={ticket_of(by_key)}"))
        kept = held.enter_context(stream(bystander))
        for events in (*streams, by_ticket, kept):
            events.frame()
        revoked = pair.owner("DELETE", f"/api/admin/operators/{ident}")
        assert (revoked.json()["linksRevoked"], revoked.json()["operator"]["revokedBy"]) == (1, "ADMIN_KEY")
        for events in (*streams, by_ticket):
            assert ends_with_revoked(events)
        assert kept.frame()["server"]["status"] != "shutting_down"
    for caller in (*callers, local):
        assert code(caller("GET", "/api/admin/me")) == (401, "unauthorized")
    assert bystander("GET", "/api/admin/me").status_code == 200


@pytest.mark.req("ADM-229", "ADM-101", "ADM-104", "FLT-031", "FLT-039", "FLT-028")
def test_revoking_links_ends_their_streams_on_both(pair: Pair) -> None:
    minted = [pair.owner("POST", "/api/admin/monitor-tokens").json() for _ in range(3)]
    watchers = [pair.at_two.with_key(one["token"]) for one in minted]

    with ExitStack() as held:
        streams = [held.enter_context(stream(watcher)) for watcher in watchers]
        for events in streams:
            events.frame()
        first = pair.owner("DELETE", f"/api/admin/monitor-tokens/{minted[0]['link']['id']}")
        assert first.json() == {"ok": True, "revoked": 1}
        assert ends_with_revoked(streams[0])
        assert code(watchers[0]("GET", "/api/admin/me")) == (401, "unauthorized")
        assert streams[1].frame()["server"]["status"] != "shutting_down"
        assert pair.owner("DELETE", "/api/admin/monitor-tokens").json()["revoked"] >= 2
        for events in streams[1:]:
            assert ends_with_revoked(events)
    for watcher in watchers:
        assert code(watcher("GET", "/api/admin/me")) == (401, "unauthorized")
    pair.owner("DELETE", f"/api/admin/monitor-tokens/{minted[0]['link']['id']}")
    assert code(pair.other_owner("POST", f"/api/admin/monitor-tokens/{minted[1]['link']['id']}/reveal")) == (
        410, "link_not_live",
    )  # fmt: skip


@pytest.mark.req("ADM-206", "ADM-064", "FLT-033", "FLT-015")
@pytest.mark.req("FLT-011")
def test_a_key_and_a_role_given_through_one_hold_on_the_other(pair: Pair) -> None:
    ident, key = pair.operator("viewer")
    elsewhere, page = pair.at_two.with_key(key), pair.at_two.signed_in(key)
    for caller in (elsewhere, page):
        assert caller("POST", "/api/admin/monitor-tokens", {"no": 1}).json()["code"] == "insufficient_role"

    raised = pair.owner("POST", f"/api/admin/operators/{ident}", {"role": "operator", "name": "Day ops"})

    assert raised.json()["changed"] == ["name", "role"]
    for caller in (elsewhere, page):
        wait_for(lambda caller=caller: caller("GET", "/api/admin/me").json()["role"] == "operator", 5)
        assert caller("GET", "/api/admin/me").json()["name"] == "Day ops"
        assert caller("POST", "/api/admin/monitor-tokens", {"no": 1}).json()["code"] == "unknown_field"
    listed = {one["id"]: one for one in pair.other_owner("GET", "/api/admin/operators").json()["operators"]}
    assert (listed[ident]["name"], listed[ident]["role"]) == ("Day ops", "operator")


@pytest.mark.req("ADM-087", "ADM-070", "FLT-015", "FLT-016", "FLT-031", "FLT-039")
@pytest.mark.req("FLT-011")
def test_sessions_and_tickets_of_one_are_known_to_the_other(pair: Pair) -> None:
    page = pair.at_one.signed_in()
    cookie = page.http.headers["Cookie"].partition("=")[2]
    twin = pair.at_two.page()
    twin.keep_cookie(cookie)
    assert twin("GET", "/api/admin/me").json()["via"] == "session"
    ticket = ticket_of(page)
    with stream(pair.at_two.with_key(None), f"?ticket={ticket}") as events:
        assert events.frame()["delta"] is False
    assert code(pair.at_one.with_key(None)("GET", f"/api/admin/events?ticket={ticket}")) == (401, "unauthorized")

    with stream(twin) as events:
        events.frame()
        assert page("DELETE", SESSION).json() == {"ok": True}
        assert ends_with_revoked(events)
    assert code(twin("GET", "/api/admin/me")) == (401, "unauthorized")


@pytest.mark.req("FLT-028", "FLT-015")
def test_what_gates_requests_follows_a_change_at_the_other_at_once(pair: Pair) -> None:
    """The host index and a room's mode of protection, and what is read anew each time: the timeline."""
    body: dict[str, Any] = {"id": "gated", "targetUrl": "https://gated.test/", "proxyOrigin": "http://127.0.0.1:1"}
    made = pair.owner("POST", "/api/admin/rooms", {**body, "rate": 0})
    assert made.status_code == 200, made.text

    def asked() -> httpx.Response:
        return httpx.get(pair.two.url + "/x", headers={"Host": "gated.test", "User-Agent": "curl/8"}, timeout=20)

    def codes() -> tuple[int, str]:
        """Of each worker, of which one answers: three times the same is every one of them."""
        answers = [asked() for _ in range(8)]
        found = {(answer.status_code, answer.json().get("code", "")) for answer in answers}
        return found.pop() if len(found) == 1 else (0, "")

    wait_for(lambda: codes() == (503, "queued"), 20)
    pair.owner("POST", "/api/admin/rooms", {"id": "gated", "state": "bypass"})
    wait_for(lambda: codes()[0] == 502, 20)
    pair.owner("POST", "/api/admin/rooms", {"id": "gated", "proxyOrigin": None})
    wait_for(lambda: codes()[0] == 404, 20)

    def items() -> list[dict[str, Any]]:
        return list(pair.other_owner("GET", "/api/admin/timeline", params={"roomId": "gated"}).json()["items"])

    wait_for(lambda: any(item["kind"] == "state" for item in items()))


@pytest.mark.req("FLT-029")
def test_a_hint_says_what_changed_and_nothing_of_it(pair: Pair) -> None:
    """The truth is read from the stores: a hint that is repeated, late or made up changes nothing."""
    with pair.valkey.pubsub() as heard:
        heard.subscribe(pair.channel)
        ident, key = pair.operator("viewer")
        pair.owner("POST", f"/api/admin/operators/{ident}", {"role": "operator", "name": "Secret name"})
        link = pair.owner("POST", "/api/admin/monitor-tokens", {"label": "secret label"}).json()
        pair.owner("POST", "/api/admin/rooms", {"id": "hinted", "name": "Secret room", "targetUrl": "https://a.test/"})
        page = pair.at_one.signed_in()
        assert page("DELETE", SESSION).status_code == 200
        texts: list[str] = []

        def are_all_there() -> bool:
            message = heard.get_message(ignore_subscribe_messages=True, timeout=1)
            if message is not None:
                texts.append(message["data"].decode())
            return {text.partition(" ")[0] for text in texts} >= {"access", "room", "signout"}

        wait_for(are_all_there)
    assert {text for text in texts if not text.startswith("signout ")} <= {"access ", "room hinted", "room gated"}
    assert not any(word in text.lower() for text in texts for word in ("secret", ident, link["link"]["id"]))

    by_key, watcher = pair.at_two.with_key(key), pair.at_two.with_key(link["token"])
    with stream(by_key) as events:
        events.frame()
        for text in (*texts, *texts, "access", f"access {ident}", "access *", "room", "room ../x", "signout ", "x y"):
            pair.valkey.publish(pair.channel, text)
        pair.valkey.publish(pair.channel, b"\xff\xfe")
        for _ in range(2):
            assert events.frame()["server"]["status"] != "shutting_down"
    for caller, role in ((by_key, "operator"), (watcher, "monitor")):
        assert caller("GET", "/api/admin/me").json()["role"] == role
    assert pair.other_owner("GET", "/api/admin/rooms/hinted").json()["room"]["name"] == "Secret room"


@pytest.mark.req("INL-008", "INL-010", "INL-011")
def test_saves_at_the_same_moment_give_no_host_two_origins_and_make_no_loop(pair: Pair) -> None:
    owners = [one.with_key(pair.one.admin_key) for one in (pair.at_one, pair.at_two) for _ in range(2)]

    def save(number: int, target: str, origin: str) -> httpx.Response:
        room = {"id": f"race-{number}", "targetUrl": f"http://{target}", "proxyOrigin": origin}
        return owners[number]("POST", "/api/admin/rooms", room)

    with ThreadPoolExecutor(4) as hands:
        for _ in range(4):
            hosts = list(
                hands.map(save, range(4), ["race.test"] * 4, [f"http://203.0.113.{n % 2 + 1}" for n in range(4)])
            )
            stored = {answer.json()["room"]["proxyOrigin"] for answer in hosts if answer.status_code == 200}
            assert len(stored) == 1
            assert {code(answer)[1] for answer in hosts if answer.status_code != 200} == {"proxy_origin_conflict"}
            loops = list(
                hands.map(save, range(2), ["a.race.test", "b.race.test"], ["http://b.race.test", "http://a.race.test"])
            )
            assert sorted(answer.status_code for answer in loops) == [200, 400]
            for number in range(4):
                pair.owner("DELETE", f"/api/admin/rooms/race-{number}")


@pytest.mark.req("ADM-055")
@pytest.mark.req("FLT-011")
def test_failures_at_both_use_one_budget(pair: Pair) -> None:
    guesser = pair.at_one.with_key("wrong")
    address = {"X-Forwarded-For": guesser.http.headers["X-Forwarded-For"]}
    twin = pair.at_two.with_key("wrong", **address)

    codes = [(guesser, twin)[number % 2]("GET", "/api/admin/me").status_code for number in range(20)]

    assert codes == [401] * 20
    right = {"Authorization": f"Bearer {pair.one.admin_key}"}
    for caller in (guesser, twin):
        assert code(caller("GET", "/api/admin/me", headers=right)) == (429, "too_many_auth_failures")
    wait_for(lambda: _locks(pair.owner, address["X-Forwarded-For"]) == 1)


def _locks(owner: Caller, address: str) -> int:
    entries = owner("GET", "/api/admin/audit", params={"action": "auth.lockout"}).json()["entries"]
    return sum(address in entry["detail"] for entry in entries)


@pytest.mark.req("BUD-074", "OBS-174")
def test_each_makes_the_same_files_whether_or_not_it_leads(pair: Pair) -> None:
    assert (
        pair.owner("POST", "/api/admin/rooms", {"id": "files", "targetUrl": "https://shop.example"}).status_code == 200
    )
    health = [owner("GET", "/api/admin/health").json() for owner in (pair.owner, pair.other_owner)]
    assert {one["leader"] for one in health} == {True, False}
    for path in ("audit?format=csv&roomId=files", "reports?format=csv&roomId=files&from=2026-01-01&to=2026-01-02"):
        files = [owner("GET", f"/api/admin/{path}") for owner in (pair.owner, pair.other_owner)]
        assert [file.status_code for file in files] == [200, 200], path
        assert files[0].content == files[1].content
        assert files[0].text.count("\r\n") == (2 if "audit" in path else 1)
    for server in (pair.one, pair.two):
        assert len([line for line in server.descendants().values() if line == "qm-heavy"]) == 1
