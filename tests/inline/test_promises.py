"""What inline mode promises across its parts: the same answers below the prefix, the same decision as a check."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.harness import wait_for
from tests.inline.conftest import Front
from tests.inline.origin import Origin
from tests.inline.people import Visitor
from tests.inline.raw import Answer

GUIDE = Path(__file__).parents[2] / "docs/integration-inline.md"
SAME = [
    "/api/version", "/healthz", "/qm.js", "/offline.html", "/api/check?room=shut", "/api/status?room=shut",
    "/api/v1/check?room=shut", "/api/v1/status?room=shut", "/api/verify?room=shut", "/events?room=none",
    "/fonts/geist-latin.woff2", "/api/nothing", "/api/check",
]  # fmt: skip
MOVING = ("now", "uptimeSec", "estWaitSec")


@pytest.fixture
def visitor(front: Front) -> Iterator[Visitor]:
    made = Visitor(front, "shut")
    yield made
    made.close()


def plain(answer: Answer) -> tuple[int, str | None, Any]:
    """What two answers have in common."""
    kind, body = answer.header("content-type"), answer.body.replace(b"/__qm/", b"/")
    if (kind or "").startswith("application/json"):
        said = json.loads(body)
        return answer.status, kind, {name: value for name, value in said.items() if name not in MOVING}
    return answer.status, kind, body


@pytest.mark.req("INL-055", "INL-058", "INL-206", "VIS-003")
def test_it_answers_below_the_prefix_as_at_the_root_of_its_own_host(front: Front, origin: Origin) -> None:
    """The right column of INL-058: what stands at the root of a queue host stands below /__qm of an inline one."""
    page = Visitor(front, "shut")
    files = set(re.findall(r'(?:href|src)="/__qm(/(?:assets|fonts)/[^"]+)"', page.page().body.decode()))
    assert len(files) >= 3
    with front.connect() as client:
        for path in [*SAME, *sorted(files)]:
            at_root, below = (
                client.ask(f"GET {path} HTTP/1.1\nHost: 127.0.0.1"),
                client.ask(f"GET /__qm{path} HTTP/1.1\nHost: shut.test"),
            )
            if "verify" not in path and "events" not in path:
                assert plain(below) == plain(at_root), path
            assert below.status == at_root.status, path
            app = client.ask(f"GET {path} HTTP/1.1\nHost: open.test")
            assert app.body == b"ok", f"{path} is the app's without the prefix"
    page.close()


@pytest.mark.req("INL-058", "INL-214", "INL-210")
def test_it_takes_the_waiting_page_and_the_ticket_to_the_site_itself(front: Front, visitor: Visitor) -> None:
    """The other rows of INL-058: where a snippet room has an address, a stored token and a token in the URL."""
    front.room("tagged", targetUrl="http://tagged.test/", proxyOrigin=None, rate=6000, queueMaxPerIp=None)
    snippet = Visitor(front, "tagged", host="127.0.0.1")
    kind = {"Content-Type": "application/json"}
    snippet.ask("POST", "/api/join", b'{"roomId":"tagged"}', **kind)

    def location() -> str:
        return str(json.loads(snippet.ask("GET", "/api/status?room=tagged").body).get("location", ""))

    wait_for(lambda: "qm_token=" in location())
    shown = snippet.ask("GET", "/w/tagged", Accept="text/html")
    assert (shown.status, b"data-inline" in shown.body) == (200, False)
    queued = visitor.page("/deep?x=1")
    assert (queued.status, b'data-inline="get"' in queued.body) == (503, True)
    visitor.join()
    assert "qm_token" not in json.dumps(visitor.api("status?room=shut"))
    assert [name for name in visitor.jar if name.startswith("qm_")] == ["qm_shut"]
    snippet.close()


@pytest.mark.req("VIS-010", "INL-077", "INL-105")
def test_it_decides_as_a_check_decides(front: Front) -> None:
    """Each state of a ticket: the reason of the gate is the one that ``/api/check`` names."""
    front.room("twin", rate=0, queueMaxPerIp=None)
    people = {name: Visitor(front, "twin", agent=f"T/{name}") for name in ("new", "waiting", "ejected", "forged", "in")}
    for name in ("waiting", "ejected", "forged", "in"):
        people[name].join()
    front.room("twin", rate=6000)
    for name in ("ejected", "in"):
        people[name].wait_for_turn()
        assert people[name].page().status == 200
    front.room("twin", rate=0)
    people["waiting"].jar.clear()
    people["waiting"].join()
    ref = people["ejected"].api("status?room=twin")["ref"]
    assert front.admin("POST", "rooms/twin/eject", {"ref": ref})[0] == 200
    people["forged"].jar["qm_twin"] = "forged"

    found = {}
    for name, person in people.items():
        checked = json.loads(person.call("/__qm/api/check?room=twin&url=http%3A%2F%2Ftwin.test%2Fapi%2Fcart").body)
        gated = person.call()
        said = json.loads(gated.body)["reason"] if gated.status == 503 else "app"
        assert said == ("app" if checked["action"] == "pass" else checked["reason"]), (name, checked)
        found[name] = said
        person.close()
    assert found == {
        "new": "new", "waiting": "waiting", "ejected": "ejected", "forged": "bad_token", "in": "app",
    }  # fmt: skip


@pytest.mark.req("INL-078")
def test_it_counts_who_comes_while_the_queue_is_off(front: Front) -> None:
    front.room("arrives", state="bypass", queueMaxPerIp=None)
    for agent in ("A/1", "A/2", "A/3"):
        person = Visitor(front, "arrives", agent=agent)
        for _ in range(3):
            assert person.page().status == 200
        person.close()

    wait_for(lambda: front.admin("GET", "rooms/arrives")[1]["room"]["joinsPerMin"] == 3)


@pytest.mark.req("INL-085")
def test_it_refuses_nobody_at_the_gate_for_looking_like_a_machine(front: Front, origin: Origin) -> None:
    """Refused at the join alone; whoever is inside goes on, whatever he looks like then."""
    bot = "python-requests/2.31.0"
    front.room("guarded", rate=6000, queueMaxPerIp=None, protection={"mode": "enforce"})
    stranger = Visitor(front, "guarded", agent=bot)
    for answer in (stranger.call(), stranger.page()):
        assert (answer.status, answer.header("x-qm-queued"), answer.header("x-qm-protection")) == (503, "1", None)
    kind = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
    joined = stranger.ask("POST", "/__qm/api/join", b'{"roomId":"guarded"}', **kind)
    assert (joined.status, json.loads(joined.body)["code"]) == (403, "blocked_by_protection")
    assert origin.heads == []

    front.room("guarded", state="bypass")
    assert stranger.call().status == 200
    front.room("guarded", state="active", protection={"mode": "off"})
    stranger.enter()
    front.room("guarded", protection={"mode": "enforce"})
    assert [stranger.page().status, stranger.call().status] == [200, 200]
    stranger.close()


@pytest.mark.req("ENG-201", "INL-047")
def test_it_compares_rules_with_the_scheme_that_it_can_prove(front: Front, origin: Origin) -> None:
    """Nobody is declared as a proxy here, so what a request says of its scheme and host counts for nothing."""
    front.room("schemes", rate=0, rules=[{"action": "protect", "pattern": "https://schemes.test/*"}])
    said = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "schemes.test", "Forwarded": "proto=https"}
    person = Visitor(front, "schemes")
    assert [person.call().status, person.ask("GET", "/cart", **said).status] == [200, 200]
    front.room("schemes", rules=[{"action": "protect", "pattern": "http://schemes.test/cart*"}])
    assert [person.call("/cart?a=1").status, person.ask("GET", "/cart", **said).status] == [503, 503]
    assert person.call("/other").status == 200
    person.close()


@pytest.mark.req("INL-218")
def test_it_keeps_the_token_of_a_monitor_link_from_every_server(front: Front, origin: Origin) -> None:
    key = {"Authorization": f"Bearer {front.server.admin_key}", "Content-Type": "application/json"}
    owner = Visitor(front, "shut")
    made = json.loads(owner.ask("POST", "/__qm/api/admin/monitor-tokens", b'{"label":"wall"}', **key).body)
    address = urlsplit(made["url"])
    assert (address.netloc, address.path, address.query) == ("shut.test", "/__qm/", "")
    assert address.fragment == f"monitor={made['token']}"
    watcher = Visitor(front, "shut")
    bearer = {"Authorization": f"Bearer {made['token']}"}  # as the page sends it (link.js)
    assert watcher.ask("GET", "/__qm/", Accept="text/html").status == 200
    assert watcher.ask("GET", "/__qm/api/admin/rooms", **bearer).status == 200
    ticket = json.loads(watcher.ask("POST", "/__qm/api/admin/sse-ticket", b"{}", **bearer).body)["ticket"]
    assert ticket not in made["token"]
    assert made["token"] not in front.server.stderr
    assert origin.heads == []
    for each in (owner, watcher):
        each.close()


@pytest.mark.req("INL-096", "INL-147", "INL-109")
def test_the_guide_says_what_it_must() -> None:
    text = " ".join(GUIDE.read_text().split())
    passing = text.partition("## What passes without a ticket")[2].partition("## ")[0]
    for words in (
        "`.js`",
        "costly",
        "`/api/stock/x.css`",
        "Rails",
        "`protect` rule",
        "no switch",
        "300 files a minute",
    ):
        assert words in passing, words
    line = "if (r.status === 503 && r.headers.get('X-QM-Queued')) { location.reload(); return new Promise(() => {}); }"
    assert line in text
    assert "`EventSource` does not retry" in text
