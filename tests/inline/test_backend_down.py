"""While a store is away: closed rooms and open ones, sessions and admissions, and what comes after (04, 15 and 16)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import psutil
import pytest

from tests.admin.test_http_outage import child_of, halted
from tests.harness import Server, wait_for
from tests.inline import surge
from tests.inline.conftest import Front
from tests.inline.origin import Origin
from tests.inline.people import Visitor
from tests.inline.test_hosts import ask
from tests.inline.test_upgrade import echo, upgrade


@contextlib.contextmanager
def all_halted(pid: int) -> Iterator[None]:
    """A process and those that it has started stand still."""
    with contextlib.ExitStack() as stack:
        for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
            stack.enter_context(halted(process.pid))
        yield


@pytest.fixture(scope="module")
def outage(the_origin: Origin) -> Iterator[Front]:
    """A server of its own, whose stores may be halted; rooms ``strict`` and ``loose``."""
    env = {"PROXY_ALLOW_PRIVATE": "1", "VALKEY_TIMEOUT_MS": "1000", "PG_STATEMENT_TIMEOUT_MS": "2000"}
    with Server(env=env, workers=1) as server:
        front = Front(server, the_origin)
        front.room("strict", rate=6000, queueMaxPerIp=None)
        front.room("loose", rate=0, onBackendDown="open")
        yield front


@pytest.mark.req("FLT-067", "FLT-068", "FLT-070", "FLT-071", "FLT-072", "FLT-073", "FLT-074")
@pytest.mark.req(
    "INL-024",
    "INL-052",
    "INL-098",
    "INL-187",
    "INL-188",
    "INL-189",
    "INL-191",
    "INL-192",
    "INL-197",
    "INL-198",
    "INL-190",
    "VIS-208",
    "INL-196",
    "INL-230",
    "ENG-047",
    "ENG-279",
    "VIS-212",
)
def test_it_closes_or_opens_as_the_room_says_while_valkey_is_away(outage: Front, the_origin: Origin) -> None:
    the_origin.reset()
    inside, stranger, loose = (
        Visitor(outage, "strict"),
        Visitor(outage, "strict", agent="B/2"),
        Visitor(outage, "loose"),
    )
    inside.enter()
    stored = {room: outage.admin("GET", f"rooms/{room}")[1]["room"]["onBackendDown"] for room in ("strict", "loose")}
    assert stored == {"strict": "closed", "loose": "open"}
    assert loose.call().status == 503
    the_origin.reset()

    with halted(child_of(outage.server.pid, "valkey-server")):
        wait_for(lambda: json.loads(stranger.call().body)["code"] == "storage_unavailable")
        the_origin.reset()
        for visitor in (inside, stranger):
            call, page = visitor.call(method="POST"), visitor.page()
            said = json.loads(call.body)
            assert (call.status, said["code"], said["roomId"]) == (503, "storage_unavailable", "strict")
            assert (page.status, b"data-room" in page.body, b'http-equiv="refresh"' in page.body) == (503, False, True)
            for answer in (call, page):
                assert (answer.header("retry-after"), answer.header("cache-control")) == ("5", "no-store")
                assert (answer.header("x-qm-queued"), answer.header("x-qm-origin")) == (None, None)
                assert answer.values("set-cookie") == []
        named = b'{"roomId":"strict"}'
        for path, body in (
            ("api/check", b""), ("api/status", b""), ("events", b""), ("api/join", named), ("api/leave", named),
        ):  # fmt: skip
            method, same = "POST" if body else "GET", {"Sec-Fetch-Site": "same-origin"}
            answer = inside.ask(method, f"/__qm/{path}?room=strict", body, **same)
            assert (answer.status, json.loads(answer.body)["code"]) == (503, "storage_unavailable"), path
            assert answer.header("retry-after") == "5", path
        with outage.connect() as client:
            client.send(upgrade("strict.test", extra="\nAccept: text/html\nSec-Fetch-Mode: navigate"))
            refused = client.answer()
            assert (refused.status, json.loads(refused.body)["code"]) == (503, "storage_unavailable")
        assert the_origin.heads == []
        assert inside.call("/x.js").status == 200  # the bypass holds
        assert surge.rows(outage, "strict.test") == surge.storage()
        assert surge.rows(outage, "loose.test") == surge.app()
        assert surge.rows(outage, "strict.test")[0].cdn_acts
        for answer in (loose.page(), loose.call(method="POST")):
            assert (answer.status, answer.body, answer.values("set-cookie")) == (200, b"ok", [])
        the_origin.script = echo
        with outage.connect() as client:
            client.send(upgrade("loose.test"))
            assert client.head().status == 101
        the_origin.reset()
        assert ask(outage, "unknown.test", "/x").status == 404

    wait_for(lambda: inside.call().status == 200)  # he kept his session
    wait_for(lambda: json.loads(loose.call().body).get("code") == "queued")  # let through, and never let in
    block = outage.admin("GET", "health")[1]["inline"]
    assert block["backendDownOpenTotal"] >= 3
    assert block["backendDownClosedTotal"] >= 5
    assert outage.server.stderr.count("inline_backend_down") == 2  # once a minute and room
    with outage.connect() as client:
        key = f"Authorization: Bearer {outage.server.admin_key}"
        text = client.ask(f"GET /metrics HTTP/1.1\nHost: 127.0.0.1\n{key}").body.decode()
    assert 'qm_proxy_backend_down_total{mode="open"}' in text
    assert 'qm_proxy_backend_down_total{mode="closed"}' in text
    for visitor in (inside, stranger, loose):
        visitor.close()


@pytest.mark.req("INL-080", "INL-081", "INL-184", "INL-185", "INL-150", "INL-186", "INL-230", "ENG-146")
def test_it_lets_nobody_in_whose_admission_cannot_be_recorded(outage: Front, the_origin: Origin) -> None:
    the_origin.reset()
    inside, page, call = (Visitor(outage, "strict", agent=f"C/{n}") for n in range(3))
    outage.room("loose", rate=6000, queueMaxPerIp=None)
    lenient = Visitor(outage, "loose", agent="C/4")
    inside.enter()
    for visitor in (page, call, lenient):
        visitor.wait_for_turn()
    the_origin.reset()

    with all_halted(child_of(outage.server.pid, "postgres")):
        refused_page, refused_call = page.page(), call.call()
        with outage.connect() as client:
            cookies = "; ".join(f"{name}={value}" for name, value in call.jar.items())
            client.send(upgrade("strict.test", extra=f"\nUser-Agent: {call.agent}\nCookie: {cookies}"))
            refused_upgrade = client.answer()
        assert surge.rows_of(lenient) == surge.storage(), "open to an outage of Valkey, not to this one"
        assert the_origin.heads == []
        for answer in (refused_page, refused_call, refused_upgrade):
            assert (answer.status, answer.header("retry-after")) == (503, "5")
            assert (answer.header("x-qm-queued"), answer.values("set-cookie")) == (None, [])
        assert json.loads(refused_call.body)["code"] == "storage_unavailable"
        assert b'http-equiv="refresh"' in refused_page.body
        assert inside.call().status == 200

    for visitor in (page, call):  # the pass was given back: a retry is let in with a door key of its own
        wait_for(lambda visitor=visitor: visitor.page().status == 200)
        assert "qm_dk_strict" in visitor.jar
        assert visitor.call().status == 200
    for visitor in (inside, page, call, lenient):
        visitor.close()
