"""Which host answers what, under /__qm and beside it: the matrix, the secret, the ceiling, the counts."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator

import pytest

from tests.harness import Server, wait_for
from tests.inline import surge
from tests.inline.conftest import Front
from tests.inline.origin import Origin, Talk, saying
from tests.inline.people import Visitor
from tests.inline.raw import Answer, Client
from tests.inline.test_streaming import Steps, reset

APP, QUEUE, CONSOLE, BARE, NOT_INLINE, MISSING = "app", "queue", "console", "bare", "not_inline_host", "not_found"
ROOT = ("/", "/public/admin.html")
ADMIN = ("/api/admin/me", "/api/v1/admin/me")
VISITOR = ("/api/version", "/api/check?room=x", "/events?room=x", "/qm.js", "/healthz", "/w/named", "/metrics")
ELSEWHERE = ("/docs", "/fonts/geist-latin.woff2", "/qm.js", "/healthz", "/api/version", "/offline.html")
OTHER = ("/x", "/favicon.png?x", "/api/none")
APPS = ("/api/join", "/docs", "/assets/waiting-x.js", "/fonts/x.woff2", "/api/v1/check", "/offline.html")


def kind(answer: Answer) -> str:
    """Who answered."""
    if answer.body == b"ok":
        return APP
    if (answer.status, answer.body, answer.header("content-length")) == (404, b"", "0"):
        return BARE
    if b'id="app"' in answer.body:
        return CONSOLE
    code = ""
    if (answer.header("content-type") or "").startswith("application/json"):
        code = json.loads(answer.body).get("code", "")
    return code if code in (NOT_INLINE, MISSING) else QUEUE


def ask(front: Front, host: str, path: str) -> Answer:
    with front.connect() as client:
        return client.ask(f"GET {path} HTTP/1.1\nHost: {host}\nConnection: close\nAccept: application/json")


def row(front: Front, host: str) -> list[set[str]]:
    """A row of INL-072: who answers the console, its API, the visitor's routes, /__qm of both kinds, other paths."""
    prefixed = [[f"/__qm{path}" for path in paths] for paths in (ROOT + ADMIN, ("/healthz", "/api/version", "/qm.js"))]
    groups = (ROOT, ADMIN, VISITOR, *prefixed, OTHER)
    return [{kind(ask(front, host, path)) for path in paths} for paths in groups]


BRISK = {"id": "brisk", "targetUrl": "http://brisk.test", "state": "active", "rate": 6000, "queueMaxPerIp": None}
MOST = 40
"""Connections that the server of the secret serves."""
FIRST_SAVE: list[Answer] = []
"""What was answered to whoever made the first inline room from a console opened by host name."""
APP_ROW = [{APP}, {APP}, {APP}, {CONSOLE, QUEUE}, {QUEUE}, {APP}]
WITHHELD_ROW = [{APP}, {APP}, {APP}, {BARE}, {QUEUE}, {APP}]
KEPT_ROW = [{APP}, {QUEUE}, {APP}, {CONSOLE, QUEUE}, {QUEUE}, {APP}]


@pytest.fixture(scope="module")
def fronts(the_origin: Origin) -> Iterator[dict[str, Front]]:
    """One server for each way of naming console hosts, all with rooms at a name and at an address."""
    kinds = {
        "unset": {},
        "public": {"PUBLIC_URL": "https://queue.test"},
        "admin": {"ADMIN_HOST": "console.test, both.test", "PUBLIC_URL": "https://queue.test"},
    }
    servers, made = [], {}
    for name, env in kinds.items():
        env = {"PROXY_ALLOW_PRIVATE": "1", "MAX_CONNECTIONS": "0", "ADMIN_AUTH_FAIL_PER_MIN": "3", **env}
        server = Server(env=env, workers=1)
        servers.append(server.__enter__())
        made[name] = Front(server, the_origin)
    FIRST_SAVE.append(save(made["unset"], "queue.test", "named", "http://named.test/"))
    for name, front in made.items():
        host = "console.test" if name == "admin" else "127.0.0.1"
        for room, target in (
            ("named", "http://named.test/"),
            ("both", "http://both.test/"),
            ("byip", "http://192.0.2.9/"),
        ):
            save(front, host, room, target)
    yield made
    for server in servers:
        server.__exit__(None, None, None)


def save(front: Front, host: str, room: str, target: str, **fields: object) -> Answer:
    body = {"id": room, "targetUrl": target, "state": "bypass", "proxyOrigin": front.origin.address, **fields}
    data = json.dumps(body).encode()
    with front.connect() as client:
        head = f"POST /api/admin/rooms HTTP/1.1\nHost: {host}\nAuthorization: Bearer {front.server.admin_key}"
        answer = client.ask(f"{head}\nContent-Length: {len(data)}", data)
    assert answer.status == 200, answer
    return answer


@pytest.mark.req("CFG-022", "CFG-162", "CFG-164", "CFG-166", "CFG-167", "CFG-169")
@pytest.mark.req(
    "INL-003", "INL-045", "INL-053", "INL-055", "INL-060", "INL-061", "INL-063", "INL-064", "INL-065", "INL-066",
    "INL-067", "INL-068", "INL-069", "INL-070", "INL-072", "INL-073", "VIS-003", "ADM-002", "ADM-004", "ADM-005",
    "ADM-006",
)  # fmt: skip
@pytest.mark.req("CON-001")
def test_it_answers_on_each_host_what_the_matrix_says(fronts: dict[str, Front], the_origin: Origin) -> None:
    the_origin.reset()
    unset, public, admin = fronts["unset"], fronts["public"], fronts["admin"]
    console_row = [{CONSOLE}, {QUEUE}, {QUEUE}, {NOT_INLINE}, {NOT_INLINE}, {MISSING}]
    other_row = [{BARE}, {BARE}, {QUEUE}, {NOT_INLINE}, {NOT_INLINE}, {MISSING}]

    assert row(unset, "127.0.0.1") == console_row
    assert row(unset, "localhost:99") == console_row
    (warning,) = json.loads(FIRST_SAVE[0].body)["warnings"]
    assert (warning["code"], warning["host"]) == ("console_host_withheld", "queue.test")
    assert warning["message"]
    assert row(unset, "queue.test") == other_row, "which it was saved from"
    assert row(unset, "named.test") == APP_ROW
    assert row(unset, "192.0.2.9") == KEPT_ROW
    assert row(public, "queue.test") == console_row
    assert row(public, "elsewhere.test") == other_row
    assert row(public, "NAMED.test.:8443") == APP_ROW
    save(public, "127.0.0.1", "spelled", "http://xn--bcher-kva.test/")
    assert kind(ask(public, "XN--BCHER-KVA.test.", "/x")) == APP
    assert row(admin, "console.test") == [{CONSOLE}, {QUEUE}, {QUEUE}, {BARE}, {BARE}, {MISSING}]
    for host in ("queue.test", "127.0.0.1"):
        assert row(admin, host) == [{BARE}, {BARE}, {QUEUE}, {BARE}, {BARE}, {MISSING}]
    assert row(admin, "named.test") == WITHHELD_ROW
    assert row(admin, "both.test") == APP_ROW
    assert row(admin, "192.0.2.9") == WITHHELD_ROW
    for front in fronts.values():
        assert {kind(ask(front, "named.test", path)) for path in APPS} == {APP}
        for path in ELSEWHERE:  # what a host in front of no room has besides
            assert ask(front, "elsewhere.test", path).status == 200, path
    for front, host, target, rows in (
        (public, "queue.test", "http://queue.test/", APP_ROW),  # the public name, and inline
        (unset, "localhost:81", "http://localhost:81/", KEPT_ROW),
        (unset, "[2001:db8::9]", "http://[2001:db8::9]/", KEPT_ROW),
    ):
        save(front, "127.0.0.1", "passing", target)
        assert row(front, host) == rows, host
        save(front, "127.0.0.1", "passing", target, proxyOrigin=None)
    the_origin.reset()
    assert row(unset, "192.0.2.9") == KEPT_ROW
    assert [head for head in the_origin.heads if b"/admin/" in head.partition(b" HTTP")[0]] == []


@pytest.mark.req("ADM-003", "INL-063")
def test_it_looks_at_no_credential_where_the_console_is_withheld(fronts: dict[str, Front]) -> None:
    """Wrong keys count towards no lock-out there, and a right one opens nothing."""
    for front, host, console in (
        (fronts["admin"], "queue.test", "console.test"), (fronts["unset"], "elsewhere.test", "127.0.0.1"),
    ):  # fmt: skip
        key = front.server.admin_key

        def tried(host: str, method: str, path: str, key: str, front: Front = front) -> Answer:
            lines = f"{method} {path} HTTP/1.1\nHost: {host}\nAuthorization: Bearer {key}\nConnection: close"
            with front.connect() as client:
                return client.ask(lines)

        for path in ("rooms", "me", "health", "operators", "events", "session", "nothing"):
            for base in ("/api/admin/", "/api/v1/admin/"):
                for method, word in (("GET", key), ("POST", "wrong"), ("DELETE", "wrong"), ("GET", "wrong")):
                    assert kind(tried(host, method, base + path, word)) == BARE, (host, method, path)
        assert tried(console, "GET", "/api/admin/me", key).status == 200
        assert tried(console, "GET", "/api/admin/me", "wrong").status == 401, "none of the wrong ones was counted"


@pytest.mark.req("INL-069", "INL-070", "INL-044", "ADM-007")
@pytest.mark.req("CFG-169")
@pytest.mark.req("CON-186")
def test_it_says_where_the_console_is(fronts: dict[str, Front]) -> None:
    for name, front in fronts.items():
        console = "console.test" if name == "admin" else "127.0.0.1"
        save(front, console, "leaves", "http://leaves.test/")
        assert kind(ask(front, "leaves.test", "/__qm/healthz")) == QUEUE
        save(front, console, "leaves", "http://leaves.test/", proxyOrigin=None)
        left = ask(front, "leaves.test", "/__qm/api/admin/me")
        assert kind(left) == (BARE if name == "admin" else NOT_INLINE)
        if name != "admin":
            said = json.loads(left.body)
            assert said.get("console") == ("https://queue.test/" if name == "public" else None)
            assert ("PUBLIC_URL" in said["error"]) is (name == "unset")
        with front.connect() as client:
            page = client.ask("GET /__qm/ HTTP/1.1\nHost: leaves.test\nAccept: text/html\nSec-Fetch-Mode: navigate")
        assert page.status == 404
        assert (b'<a href="https://queue.test/">' in page.body) is (name == "public")
        assert (b"PUBLIC_URL is unset" in page.body) is (name == "unset")
        assert b"refresh" not in page.body
    told = json.loads(ask(fronts["public"], "old.test", "/__qm/").body)
    untold = json.loads(ask(fronts["unset"], "old.test", "/__qm/").body)
    assert (told["code"], told["console"]) == (NOT_INLINE, "https://queue.test/")
    assert (untold["code"], "console" in untold) == (NOT_INLINE, False)
    with fronts["public"].connect() as client:  # a forwarded host takes no part
        answer = client.ask("GET /x HTTP/1.1\nHost: queue.test\nX-Forwarded-Host: named.test")
        assert kind(answer) == MISSING


@pytest.mark.req("INL-056", "INL-059", "INL-071", "INL-217", "INL-238", "VIS-005")
@pytest.mark.req("CON-253")
def test_it_shows_the_console_below_the_prefix_alone(fronts: dict[str, Front], the_origin: Origin) -> None:
    the_origin.reset()
    front = fronts["unset"]
    moved = ask(front, "named.test", "/__qm")
    assert (moved.status, moved.header("location")) == (308, "/__qm/")
    guide = ask(front, "named.test", "/__qm/docs/th/?a=b")
    assert (guide.status, guide.header("location")) == (308, "/__qm/docs/th?a=b")
    withheld = ask(fronts["admin"], "named.test", "/__qm")
    assert kind(withheld) == BARE
    page = ask(front, "named.test", "/__qm/").body.decode()
    assert "qm-console" not in page
    there = ask(fronts["public"], "named.test", "/__qm/").body.decode()
    assert '<meta name="qm-console" content="https://queue.test/">' in there
    assert "qm-console" not in ask(fronts["public"], "queue.test", "/").body.decode()
    addresses = [part.split('"')[0] for part in page.replace("src=", "href=").split('href="')[1:]]
    assert len(addresses) > 5
    assert all(address.startswith("/__qm/assets/") for address in addresses)
    assert ask(front, "named.test", addresses[0]).status == 200
    missing = ask(front, "named.test", "/__qm/nothing")
    assert (missing.status, kind(missing), missing.header("cache-control")) == (404, MISSING, "no-store")
    with front.connect() as client:
        data = json.dumps({"key": front.server.admin_key}).encode()
        answer = client.ask(
            "POST /__qm/api/admin/session HTTP/1.1\nHost: named.test\nX-QM-CSRF: 1\nSec-Fetch-Site: same-origin\n"
            f"Content-Length: {len(data)}", data,
        )  # fmt: skip
        cookie = answer.header("set-cookie") or ""
        assert (answer.status, "; Path=/__qm/api/admin; HttpOnly; SameSite=Strict" in cookie) == (200, True)
    for script in (addresses[0], "/__qm/qm.js", "/__qm/"):
        assert ask(front, "named.test", script).status == 200
        with front.connect() as client:
            worker = client.ask(f"GET {script} HTTP/1.1\nHost: named.test\nService-Worker: script")
            assert (worker.status, kind(worker)) == (404, MISSING)
    assert the_origin.heads == []


@pytest.mark.req("INL-057", "INL-055", "VIS-007")
def test_it_answers_for_rooms_of_its_own_host_alone(front: Front) -> None:
    front.room("elsewhere", rate=0)
    visitor = Visitor(front, "shut")
    json_type = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
    for room, code in (("shut", None), ("elsewhere", "no_room")):
        for method, path, body in (
            ("GET", f"check?room={room}", None), ("GET", f"status?room={room}", None),
            ("POST", "join", {"roomId": room}), ("POST", "leave", {"roomId": room}),
            ("GET", f"v1/status?room={room}", None),
        ):  # fmt: skip
            data = b"" if body is None else json.dumps(body).encode()
            answer = visitor.ask(method, f"/__qm/api/{path}", data, **json_type)
            assert json.loads(answer.body).get("code") == code, (room, path, answer)
    assert visitor.ask("GET", "/__qm/events?room=elsewhere").status == 404
    assert visitor.ask("GET", "/__qm/w/elsewhere").status == 404
    moved = visitor.ask("GET", "/__qm/w/shut")
    assert (moved.status, moved.header("location")) == (302, "/")  # PAG-100
    visitor.close()


@pytest.mark.req("INL-204", "INL-205", "INL-206", "INL-207", "OBS-026", "OBS-027", "OBS-051", "VIS-181")
def test_it_answers_probes_beside_the_public_name_only(front: Front, origin: Origin) -> None:
    with front.connect() as client:
        assert json.loads(client.ask("GET /healthz HTTP/1.1\nHost: 127.0.0.1").body)["ready"] is True
        public = client.ask("GET /healthz HTTP/1.1\nHost: shut.test")
        assert (public.status, json.loads(public.body)["code"]) == (503, "queued")
        for path in ("/api/version", "/metrics"):
            assert json.loads(client.ask(f"GET {path} HTTP/1.1\nHost: shut.test").body)["code"] == "queued"
        bare = client.ask("HEAD /healthz HTTP/1.1\nHost: shut.test")
        assert (bare.status, bare.body) == (503, b"")
        for path in ("/__qm/healthz", "/__qm/api/version"):
            assert json.loads(client.ask(f"GET {path} HTTP/1.1\nHost: shut.test").body)["ready"] is True
        assert client.ask("GET /__qm/metrics HTTP/1.1\nHost: shut.test").status == 401
        key = f"Authorization: Bearer {front.server.admin_key}"
        assert b"qm_proxy_gated_total" in client.ask(f"GET /__qm/metrics HTTP/1.1\nHost: shut.test\n{key}").body


@pytest.mark.req("INL-001", "INL-002", "INL-022", "INL-025", "INL-043", "ENG-026", "ENG-027")
@pytest.mark.req("CFG-169")
def test_it_begins_and_ends_with_the_rooms_setting(front: Front, origin: Origin) -> None:
    made = front.room("comes", state="bypass")
    assert (made["created"], made["room"]["mode"], made["room"]["proxyOrigin"]) == (True, "inline", origin.address)
    assert ask(front, "comes.test", "/").body == b"ok"
    cleared = front.admin("POST", "rooms", {"id": "comes", "proxyOrigin": ""})[1]
    assert (cleared["room"]["mode"], cleared["room"]["proxyOrigin"]) == ("snippet", None)
    assert ask(front, "comes.test", "/x").status == 404
    assert kind(ask(front, "comes.test", "/__qm/healthz")) == NOT_INLINE
    front.room("comes")
    assert ask(front, "comes.test", "/").body == b"ok"
    front.admin("DELETE", "rooms/comes")
    assert ask(front, "comes.test", "/x").status == 404


@pytest.mark.req("INL-097", "INL-177", "INL-199", "INL-201", "INL-178", "INL-202")
def test_it_counts_what_it_forwards_and_what_fails(front: Front, origin: Origin) -> None:
    front.room("tallied", state="bypass")
    key = f"Authorization: Bearer {front.server.admin_key}"

    def of_room() -> dict[str, str]:
        """What the metrics say of this room alone: others may still be counted for what earlier tests began."""
        with front.connect() as client:
            text = client.ask(f"GET /metrics HTTP/1.1\nHost: 127.0.0.1\n{key}").body.decode()
        pairs = (line.rsplit(" ", 1) for line in text.splitlines() if 'room="tallied"' in line)
        return {name: value for name, value in pairs if name.startswith("qm_proxy_")}

    before = front.admin("GET", "health")[1]["inline"]
    visitor = Visitor(front, "tallied")
    assert visitor.call("/x.js").status == 200
    assert visitor.call("/page").status == 200
    origin.script = saying(b"", close=True)
    assert visitor.call("/page").status == 502
    visitor.before = b"\r\n"
    assert [visitor.call(target).status for target in ("/page", "/x.js")] == [502, 502]
    origin.script = saying(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", close=True)
    for way in (b"", b"\r\n"):
        with front.connect() as client:
            client.send(way)
            assert not client.ask("GET /page HTTP/1.1\nHost: tallied.test").is_whole
    origin.script = saying(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
    assert visitor.call("/page").status == 500

    wait_for(lambda: front.admin("GET", "health")[1]["inline"]["originErrors"].get("tallied", {}).get("reset") == 5)
    after = front.admin("GET", "health")[1]["inline"]

    assert {"open.test", "shut.test"} <= set(after["hosts"])
    assert after["indexFrom"] == "valkey"
    grown = {name: after[name] - before[name] for name in after if name.endswith("Total")}
    assert grown["gatedTotal"] >= 6
    assert grown["bypassedTotal"] >= 2
    assert grown["originErrorsTotal"] >= 5
    assert after["originErrors"]["tallied"] == {
        "connect": 0, "dns": 0, "tls": 0, "timeout": 0, "reset": 5, "bad_response": 0, "blocked_address": 0,
    }  # fmt: skip
    assert of_room() == {
        'qm_proxy_gated_total{room="tallied"}': "6.0", 'qm_proxy_bypassed_total{room="tallied"}': "2.0",
        'qm_proxy_origin_errors_total{class="reset",room="tallied"}': "5.0",
    }  # fmt: skip
    assert json.loads(ask(front, "127.0.0.1", "/healthz").body)["ready"] is True
    visitor.close()


@pytest.mark.req("INL-235")
def test_it_lets_nobody_make_up_files_without_end(fronts: dict[str, Front], the_origin: Origin) -> None:
    the_origin.reset()
    front = fronts["public"]
    save(front, "127.0.0.1", "files", "http://files.test/", state="active", rate=0)
    visitor, before = Visitor(front, "files"), front.admin("GET", "health")[1]["inline"]["bypassRefusedTotal"]

    def statuses(times: int) -> list[int]:
        found = []
        for number in range(times):
            visitor.before = b"\r\n" if number % 2 else b""  # the ways count together
            found.append(visitor.call(f"/made-up-{number}.js").status)
        return found

    assert statuses(40) == [200] * 40, "which do not count"
    refusals = (400, 403, 404, 500, 503)
    for status in refusals:
        the_origin.script = saying(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % status)
        assert statuses(60) == [status] * 60
    the_origin.reset()
    assert statuses(6) == [503] * 6
    assert visitor.call("/made-up.js").header("x-qm-queued") == "1"
    assert the_origin.heads == []
    assert front.admin("GET", "health")[1]["inline"]["bypassRefusedTotal"] == before + 7
    visitor.close()


@pytest.mark.req("INL-167", "INL-177")
@pytest.mark.parametrize("leave", [Client.close, reset])
@pytest.mark.parametrize("way", [b"", b"\r\n"])
@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart"])
def test_it_leaves_the_origin_when_the_visitor_leaves(
    fronts: dict[str, Front], the_origin: Origin, leave: Callable[[Client], None], way: bytes, said: bytes
) -> None:
    """Long before PROXY_TIMEOUT_MS, which is its default on these servers."""
    steps = Steps()

    async def script(talk: Talk) -> None:
        await talk.say(said)
        steps.done("asked")
        with contextlib.suppress(ConnectionError):
            assert await talk.reader.read() == b""
        steps.done("left")
        talk.writer.close()

    the_origin.reset()
    the_origin.script, front = script, fronts["public"]
    before = front.admin("GET", "health")[1]["inline"]
    client = front.connect()
    client.send(way + b"GET / HTTP/1.1\r\nHost: named.test\r\n\r\n")
    steps.wait("asked")
    client.until(said)
    leave(client)
    steps.wait("left")

    def counts() -> dict[str, int]:
        return front.admin("GET", "health")[1]["inline"]  # type: ignore[no-any-return]

    wait_for(lambda: counts()["clientAbortsTotal"] == before["clientAbortsTotal"] + 1)
    assert counts()["originErrorsTotal"] == before["originErrorsTotal"], "a closed lid is not a broken site"
    the_origin.reset()


@pytest.mark.req("INL-239")
def test_it_gates_files_that_a_rule_names(front: Front) -> None:
    rules = [{"action": "protect", "pattern": "/api/*.js"}, {"action": "protect", "pattern": "/checkout*"}]
    front.room("byrule", rate=0, rules=rules)
    visitor = Visitor(front, "byrule")
    statuses = [visitor.call(path).status for path in ("/api/a.js", "/API/x/b.js", "/checkout/x.js", "/c.js")]
    assert statuses == [503, 503, 200, 200]
    visitor.close()


def by_https(front: Front, headers: dict[str, str]) -> dict[str, str]:
    """Cookies that somebody gets who joins ``brisk`` and is let in, with their flags."""
    visitor, answers = Visitor(front, "brisk"), []
    kind = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
    answers.append(visitor.ask("POST", "/__qm/api/join", b'{"roomId":"brisk"}', **kind, **headers))

    def is_in() -> bool:
        answers.append(visitor.call(**headers))
        return answers[-1].status == 200

    wait_for(is_in)
    visitor.close()
    lines = [line for answer in answers for line in answer.values("set-cookie")]
    return {line.partition("=")[0]: line for line in lines}


@pytest.mark.req("INL-211")
@pytest.mark.req("CFG-127", "CFG-131", "CFG-168")
@pytest.mark.req(
    "INL-221",
    "INL-222",
    "INL-223",
    "INL-209",
    "INL-155",
    "INL-125",
    "INL-027",
    "INL-161",
    "INL-114",
    "INL-115",
    "OBS-029",
    "INL-075",
    "INL-086",
    "VIS-029",
    "VIS-032",
    "VIS-080",
    "VIS-019",
    "INL-230",
    "ENG-201",
)
def test_it_demands_the_edge_secret_for_everything_on_an_inline_host(origin: Origin) -> None:
    secret = "an-edge-secret-of-the-tests"
    limits = {
        "WAITING_LIMIT_PER_MIN": "2", "CHECK_LIMIT_PER_MIN": "1", "STATUS_LIMIT_PER_MIN": "3",
        "JOIN_LIMIT_PER_MIN": "1", "SSE_PER_IP": "1", "SSE_MAX_TOTAL": "2", "MAX_CONNECTIONS": str(MOST),
    }  # fmt: skip
    env = {"PROXY_ALLOW_PRIVATE": "1", "EDGE_SECRET": secret, "PROXY_TIMEOUT_MS": "5", **limits}
    with Server(env=env, workers=1) as server:
        front = Front(server, origin)
        edge = {"X-QM-Edge": secret}
        body = {"id": "open", "targetUrl": "http://open.test/", "proxyOrigin": origin.address, "state": "bypass"}
        assert front.admin("POST", "rooms", body, **edge)[0] == 200
        front.admin(
            "POST",
            "rooms",
            {**body, "id": "shut", "targetUrl": "http://shut.test", "state": "active", "rate": 0},
            **edge,
        )
        with front.connect() as client:
            for path in ("/", "/x.js", "/healthz", "/__qm/healthz", "/__qm/", "/api/x"):
                for extra in ("", "\nConnection: Upgrade\nUpgrade: websocket", "\nX-QM-Edge: wrong"):
                    with front.connect() as stranger:
                        answer = stranger.ask(f"GET {path} HTTP/1.1\nHost: open.test{extra}")
                        said = json.loads(answer.body)
                        assert (answer.status, said["code"]) == (403, "edge_required"), path
                        assert "x-qm-edge" not in answer.body.decode().lower()
                        assert answer.header("cache-control") == "no-store"
            page, call = surge.rows(front, "open.test")
            assert (page, call) == (
                surge.Row(403, "small", None, None, None), surge.Row(403, "edge_required", None, None, None),
            )  # fmt: skip
            assert not page.cdn_acts
            assert origin.heads == []
            assert client.ask("GET /healthz HTTP/1.1\nHost: 127.0.0.1").status == 200
            for path in ("/api/version", "/metrics", "/healthz/"):
                with front.connect() as stranger:
                    assert stranger.ask(f"GET {path} HTTP/1.1\nHost: 127.0.0.1").status == 403
            passed = client.ask(
                f"GET / HTTP/1.1\nHost: open.test\nX-QM-Edge: {secret}\nCF-Connecting-IP: 198.51.100.7\n"
                "X-Forwarded-For: 6.6.6.6\nX-Forwarded-Proto: https\nX-Forwarded-Host: evil\nX-Real-IP: 6.6.6.6\n"
                "Forwarded: for=6.6.6.6\nTrue-Client-IP: 6.6.6.6"
            )
            assert passed.status == 200
            lines = origin.heads[0].split(b"\r\n")
            assert {b"X-Forwarded-For: 198.51.100.7", b"X-Forwarded-Proto: https", b"X-Forwarded-Port: 443"} <= set(
                lines
            )
            assert b"X-Forwarded-Host: open.test" in lines
            assert secret.encode() not in origin.heads[0]
            assert b"6.6.6.6" not in origin.heads[0]
            unnamed = client.ask(f"GET / HTTP/1.1\nHost: open.test\nX-QM-Edge: {secret}\nX-Forwarded-For: 6.6.6.6")
            assert unnamed.status == 200
            assert b"X-Forwarded-For: 127.0.0.1" in origin.heads[-1].split(b"\r\n")
            through = f"X-QM-Edge: {secret}\nCF-Connecting-IP: 198.51.100.7"
            upgrade = f"GET /ws HTTP/1.1\nHost: open.test\n{through}\nConnection: Upgrade\nUpgrade: websocket"
            with front.connect() as socket:
                socket.ask(upgrade)
            assert origin.heads[-1].startswith(b"GET /ws ")
            assert b"x-qm-edge" not in origin.heads[-1].lower()
            assert secret.encode() not in origin.heads[-1]
            secure = {"id": "secure", "targetUrl": "http://secure.test", "state": "active", "rate": 0}
            rules = [{"action": "protect", "pattern": "https://secure.test/*"}]
            front.admin("POST", "rooms", {**body, **secure, "rules": rules}, **edge)
            for scheme, status in (("http", 200), ("https", 503)):  # the page's URL has the visitor's scheme
                asked = f"GET /x HTTP/1.1\nHost: secure.test\n{through}\nX-Forwarded-Proto: {scheme}"
                assert client.ask(asked).status == status
            page = f"GET / HTTP/1.1\nHost: shut.test\n{through}\nAccept: text/html"
            call = page.replace("text/html", "*/*")
            answers = [client.ask(page) for _ in range(3)]  # INL-114, INL-115
            assert [answer.status for answer in answers] == [503, 503, 429]
            assert (answers[2].header("x-ratelimit-limit"), answers[2].header("x-ratelimit-remaining")) == ("2", "0")
            assert answers[2].header("retry-after")
            assert int(answers[2].header("x-ratelimit-reset") or 0) > 0
            asking = page.replace("GET / ", "GET /__qm/api/status?room=shut ").replace("text/html", "*/*")
            assert client.ask(asking).status == 200
            shown = page.replace("GET / ", "GET /__qm/ ")  # a budget of its own, with the same number
            assert [client.ask(shown).status for _ in range(3)] == [200, 200, 429]
            assert surge.read(answers[2], is_page=True)[:4] == (429, "retry", None, None)
            assert [client.ask(call).status for _ in range(3)] == [503, 503, 503]
            assert surge.read(client.ask(call), is_page=False) == surge.waiting("new")[1]
            joins, streams = [], []
            for place in (7, 8, 9):
                who = f"Host: shut.test\nX-QM-Edge: {secret}\nCF-Connecting-IP: 198.51.100.{place}"
                kind = "Content-Type: application/json\nSec-Fetch-Site: same-origin\nContent-Length: 17"
                answers = [
                    client.ask(f"POST /__qm/api/join HTTP/1.1\n{who}\n{kind}", b'{"roomId":"shut"}') for _ in "ab"
                ]
                joins.append(surge.read(answers[1], is_page=False)._replace(retry=None))
                assert answers[1].header("retry-after")
                token = json.loads(answers[0].body)["token"]
                stream = f"GET /__qm/events?room=shut&token={token} HTTP/1.1\n{who}"
                streams.append(front.connect())
                streams[-1].send(stream.replace("\n", "\r\n").encode() + b"\r\n\r\n")
                if place == 7:  # one of each address, and two in all
                    assert streams[0].head().status == 200
                    with front.connect() as second:
                        own = surge.read(second.ask(stream), is_page=False)
                    assert own == surge.Row(429, "sse_limit", None, None, "30")
            assert joins == [surge.Row(429, "rate_limited", None, None, None)] * 3
            assert streams[1].head().status == 200
            full = surge.read(streams[2].answer(), is_page=False)
            assert full == surge.Row(503, "sse_full", "1", None, "30")
            for each in streams:
                each.close()
            https = {"rules": [{"action": "protect", "pattern": "https://shut.test/*"}]}
            front.admin("POST", "rooms", {"id": "shut", **https}, **edge)
            assert client.ask(call).status == 200
            assert client.ask(f"{call}\nX-Forwarded-Proto: https").status == 503, "proved by the secret"
            front.admin("POST", "rooms", {**body, **BRISK, "proxyOrigin": origin.address}, **edge)
            cookies = by_https(front, {**edge, "CF-Connecting-IP": "198.51.100.20", "X-Forwarded-Proto": "https"})
            assert cookies.keys() == {"qm_brisk", "qms_brisk", "qm_dk_brisk"}
            assert all("; Path=/; " in flags and "Domain" not in flags for flags in cookies.values())
            assert all(flags.endswith("; HttpOnly; SameSite=Lax; Secure") for flags in cookies.values())
            held = [front.connect() for _ in range(MOST)]
            with front.connect() as stranger, front.connect() as known:  # the secret comes before the ceiling
                assert stranger.ask("GET / HTTP/1.1\nHost: open.test").status == 403
                overloaded = known.ask(f"GET / HTTP/1.1\nHost: open.test\n{through}")
                assert (overloaded.status, json.loads(overloaded.body)["code"]) == (503, "overloaded")
            for each in held:
                each.close()
            with front.connect() as other:  # framing before the secret, the secret before everything else
                other.send(b"POST /__qm/none HTTP/1.1\r\nHost: open.test\r\nContent-Length: 1, 1\r\n\r\n")
                assert other.answer().status == 400
        health = front.admin("GET", "health", **edge)[1]
        assert health["edge"]["refusedTotal"] == 24
        assert health["edge"]["clientIpFallbackTotal"] >= 1
        warnings = {warning["code"]: warning for warning in health["configWarnings"]}
        assert "console_host_withheld" in warnings
        timeout = next(one for one in health["configWarnings"] if one["variable"] == "PROXY_TIMEOUT_MS")
        assert (timeout["set"], timeout["using"]) == ("5", 1000)
        assert secret not in server.stderr


@pytest.mark.req("INL-163", "INL-164", "INL-162", "INL-165", "INL-166", "INL-168", "INL-230")
def test_it_drops_with_an_answer_what_is_above_the_ceiling(origin: Origin) -> None:
    caps = {"MAX_CONNECTIONS": "3", "CONNECTION_RESERVE": "2", "SSE_MAX_TOTAL": "2"}
    with Server(env={"PROXY_ALLOW_PRIVATE": "1", **caps}, workers=1) as server:
        front = Front(server, origin)
        front.room("open", state="bypass")
        front.room("byip", state="bypass", targetUrl="http://192.0.2.9/")
        held = [front.connect() for _ in range(3)]
        for client in held:
            assert client.ask("GET / HTTP/1.1\nHost: open.test").status == 200
        held[0].send(b"POST /up HTTP/1.1\r\nHost: open.test\r\nContent-Length: 300000\r\n\r\n", bytes(100_000))
        wait_for(lambda: len(origin.heads) == 4)
        with front.connect() as late:  # his answer is not taken away by what he still sends
            late.send(b"POST / HTTP/1.1\r\nHost: open.test\r\nContent-Length: 200000\r\n\r\n", bytes(200_000))
            assert (late.answer().status, late.rest()) == (503, b"")
        for target, accept in (("/", "text/html"), ("/api/x", "*/*"), ("/x.js", "*/*")):
            with front.connect() as client:
                answer = client.ask(f"GET {target} HTTP/1.1\nHost: open.test\nAccept: {accept}")
                assert (answer.status, answer.header("retry-after"), answer.header("connection")) == (
                    503,
                    "10",
                    "close",
                )
                assert (answer.header("x-qm-queued"), answer.header("x-qm-origin")) == (None, None)
                assert answer.header("cache-control") == "no-store"
                assert (b"overloaded" in answer.body) is (accept == "*/*")
                assert surge.read(answer, is_page=accept != "*/*").cdn_acts
        assert len(origin.heads) == 4
        held[0].send(bytes(200_000))
        assert held[0].answer().body == b"ok", "what was under way ends as ever"
        with front.connect() as client:
            full = client.ask("GET /__qm/healthz HTTP/1.1\nHost: open.test")
            said = json.loads(full.body)
            assert (full.status, said["ready"], said["status"]) == (503, False, "ok")
            assert full.header("connection") == "close"
        for method, path in (
            ("GET", "/__qm/api/check?room=open"), ("POST", "/__qm/healthz"), ("GET", "/__qm/"), ("GET", "/__qm"),
            ("GET", "/__qm/qm.js"), ("GET", "/__qm/assets/x.js"), ("GET", "/__qm/events?room=open"),
        ):  # fmt: skip
            with front.connect() as client:
                answer = client.ask(f"{method} {path} HTTP/1.1\nHost: open.test")
                assert (answer.status, json.loads(answer.body)["code"]) == (503, "overloaded"), path
                assert (answer.header("x-qm-queued"), answer.header("connection")) == (None, "close")
        key = f"Authorization: Bearer {server.admin_key}"
        for host, path in (
            ("open.test", "/__qm/api/version"), ("open.test", "/__qm/metrics"), ("open.test", "/__qm/api/admin/me"),
            ("open.test", "/__qm/api/v1/admin/rooms"), ("192.0.2.9", "/api/admin/me"),
        ):  # fmt: skip
            for method in ("GET", "HEAD") if "admin" not in path else ("GET",):
                with front.connect() as client:
                    answer = client.ask(f"{method} {path} HTTP/1.1\nHost: {host}\n{key}")
                    assert (answer.status, answer.header("connection")) == (200, "close"), (host, path)
        surplus = [front.connect(), front.connect()]
        with front.connect() as beyond, contextlib.suppress(ConnectionError):
            beyond.send(b"GET / HTTP/1.1\r\nHost: open.test\r\n\r\n")
            assert beyond.rest() == b""
        for client in surplus:
            client.close()
        wait_for(lambda: front.admin("GET", "health")[0] == 200)
        health = front.admin("GET", "health")[1]
        assert health["connections"]["refusedTotal"] >= 6
        assert health["inline"]["overloadedTotal"] == 4 + 7
        for client in held:
            client.socket.close()
