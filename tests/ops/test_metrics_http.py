"""``/metrics`` of a real server with two workers: who may read it, what is counted, and that it is the instance's."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter

import httpx
import pytest

from app.core.metrics import METRICS
from tests.admin.callers import TARGET, Caller, Callers, code, fresh_id
from tests.harness import Server, wait_for
from tests.ops.conftest import PUBLIC_KEY
from tests.ops.scrape import Scrape, scrape
from tests.ops.tools import promtool


def make_room(owner: Caller, **fields: object) -> str:
    room = fresh_id()
    assert owner("POST", "/api/admin/rooms", {"id": room, "targetUrl": TARGET, **fields}).status_code == 200
    return room


@pytest.mark.req("OBS-050", "ADM-288")
def test_it_is_read_with_a_key_only(server: Server, callers: Callers, owner: Caller) -> None:
    viewer = owner("POST", "/api/admin/operators", {"name": "Watching", "role": "viewer"}).json()
    link = owner("POST", "/api/admin/monitor-tokens").json()
    assert callers.with_key(viewer["key"])("GET", "/metrics").status_code == 200
    assert code(callers.with_key(None)("GET", "/metrics")) == (401, "unauthorized")
    assert code(callers.with_key("wrong-key")("GET", "/metrics")) == (401, "unauthorized")
    assert code(owner("GET", f"/metrics?key={server.admin_key}")) == (401, "credential_in_query")
    before = scrape(server).value("qm_admin_auth_failures_total")
    for key in (PUBLIC_KEY, link["token"]):
        assert code(callers.with_key(key)("GET", "/metrics")) == (403, "insufficient_role")
    assert scrape(server).value("qm_admin_auth_failures_total") == before

    answer = owner("GET", "/metrics")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    head = owner("HEAD", "/metrics")
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.req("OBS-091", "ADM-053")
def test_it_counts_wrong_keys(server: Server, callers: Callers) -> None:
    before = scrape(server).value("qm_admin_auth_failures_total") or 0
    callers.with_key("wrong")("GET", "/api/admin/me")
    callers.page()("POST", "/api/admin/session", {"key": "wrong"})
    callers.with_key("wrong")("GET", "/metrics")
    assert scrape(server).value("qm_admin_auth_failures_total") == before + 3


@pytest.mark.req("OBS-056")
def test_every_series_is_declared_once_with_help_and_type(server: Server, owner: Caller) -> None:
    make_room(owner)
    text = scrape(server).text

    helps = re.findall(r"^# HELP (\S+) \S.*$", text, re.MULTILINE)
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    assert Counter(helps) == dict.fromkeys((metric.name for metric in METRICS), 1)
    assert types == {metric.name: metric.kind.value for metric in METRICS}
    shown = {re.sub(r"_(bucket|count|sum)$", "", line.split("{")[0].split(" ")[0]) for line in text.splitlines()}
    assert shown - {"#"} <= set(types)


@pytest.mark.req("OBS-052")
def test_no_series_names_an_instance_with_private_stores(server: Server) -> None:
    assert "instance=" not in scrape(server).text


@pytest.mark.req("OBS-056")
def test_text_of_strangers_becomes_no_label(server: Server, owner: Caller, stranger: Caller) -> None:
    make_room(owner)
    for path in ("/evil-path", "/w/evil-room", "/api/check?room=evil-room", "/api/admin/evil-path", "/assets/evil.js"):
        stranger("GET", path, headers={"Origin": "https://evil.example", "User-Agent": "evil-agent"})
    stranger("POST", "/api/join", {"roomId": "evil-room"})

    assert "evil" not in scrape(server).text


@pytest.mark.req("OBS-099")
def test_it_counts_what_happens_in_a_line(server: Server, owner: Caller, callers: Callers) -> None:
    room = make_room(owner, ratePerMinute=0, queueMaxPerIp=100)

    def joined() -> Caller:
        person = callers.with_key(None)
        answer = person("POST", "/api/join", {"roomId": room})
        assert answer.status_code == 200
        person.http.headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in answer.cookies.items())
        return person

    people = [joined() for _ in range(4)]
    people[0]("POST", "/api/join", {"roomId": room})  # has a place: no join
    assert owner("POST", f"/api/admin/rooms/{room}/eject", {"ticket": 4}).status_code == 200
    assert owner("POST", f"/api/admin/rooms/{room}/flush").json()["flushed"] == 3
    wait_for(lambda: people[0]("GET", f"/api/check?room={room}&url={TARGET}/").json().get("reason") == "admitted")

    found = scrape(server)

    seen = {name: found.value(f"qm_{name}_total", room=room) for name in ("joins", "passes", "admissions", "ejections")}
    assert seen == {"joins": 4, "passes": 3, "admissions": 1, "ejections": 1}
    assert owner("POST", f"/api/admin/rooms/{room}/rate", {"ratePerMinute": 600}).status_code == 200
    joined()
    wait_for(lambda: scrape(server).value("qm_passes_total", room=room) == 4)


@pytest.mark.req("OBS-084", "OBS-085", "OBS-086", "OBS-087", "OBS-088", "OBS-089", "VIS-215")
@pytest.mark.req("ENG-093", "ENG-210", "ENG-211", "VIS-078")
def test_it_counts_refusals(server: Server, owner: Caller, callers: Callers) -> None:
    room = make_room(owner)
    before = scrape(server)
    check = f"/api/check?room={room}&url={TARGET}/"
    callers.with_key(None)("GET", "/api/check?room=chekout")
    callers.with_key(None)("POST", "/api/join", {"roomId": room, "returnUrl": "https://evil.example/"})
    for key in ("wrong", PUBLIC_KEY + "x"):
        callers.with_key(key)("GET", f"{check}&ip=203.0.113.9&agent=x")
    callers.with_key("wrong")("GET", "/api/check?room=chekout&ip=203.0.113.9&agent=x")
    callers.with_key(None)("GET", f"{check}&ip=203.0.113.9&agent=x&key={PUBLIC_KEY}")
    guesser = callers.with_key("wrong")
    for _ in range(20):
        guesser("GET", f"{check}&ip=203.0.113.9&agent=x")
    guesser.http.headers["Authorization"] = f"Bearer {PUBLIC_KEY}"  # from an address that is locked now
    assert guesser("GET", f"{check}&ip=203.0.113.9&agent=x").status_code in (401, 429)
    callers.with_key(None, Origin="https://landing.example")("GET", check)
    limited = callers.with_key(None)
    statuses = [limited("GET", check).status_code for _ in range(8)]
    assert statuses[-2:] == [429, 429]
    token = callers.with_key(None)("POST", "/api/join", {"roomId": room}).json()["token"]
    other = make_room(owner)
    callers.with_key(None)("GET", f"/api/check?room={other}&url={TARGET}/&token={token}")
    callers.with_key(None)("GET", f"{check}&token=x.y")

    after = scrape(server)

    def more(name: str, **labels: str) -> float:
        return (after.value(name, **labels) or 0) - (before.value(name, **labels) or 0)

    assert more("qm_unknown_room_checks_total") == 1
    assert more("qm_blocked_return_urls_total") == 1
    assert (more("qm_refused_key_checks_total", room=room), more("qm_refused_key_checks_all_total")) == (24, 25)
    assert more("qm_refused_origin_checks_total", room=room) == 1
    assert (more("qm_rate_limited_checks_total", room=room), more("qm_rate_limited_checks_all_total")) == (2, 2)
    assert more("qm_rejected_tokens_total", room=other, reason="wrong_room") == 1
    assert more("qm_rejected_tokens_total", room=room, reason="malformed") == 1
    assert more("qm_rejected_tokens_all_total") == 2


def test_it_counts_requests_over_a_budget(server: Server, callers: Callers, owner: Caller) -> None:
    room = make_room(owner)
    before = scrape(server)
    one, other = callers.with_key(None), callers.with_key(None)
    assert [one("GET", f"/api/status?room={room}").status_code for _ in range(5)][-2:] == [429, 429]
    for _ in range(7):
        other("GET", f"/api/check?room={room}")

    after = scrape(server)

    names = {dict(labels)["budget"] for labels in after.of("qm_rate_limited_total")}
    assert names >= {"join", "check", "status", "waiting", "docs", "notify", "verify", "connectors"}
    of = "qm_rate_limited_total"
    more = {name: (after.value(of, budget=name) or 0) - (before.value(of, budget=name) or 0) for name in names}
    assert {name: number for name, number in more.items() if number} == {"status": 2, "check": 1}


@pytest.mark.req("OBS-101", "OBS-102")
def test_it_counts_answers_by_route_and_class(server: Server, callers: Callers, owner: Caller) -> None:
    room = make_room(owner)
    before = scrape(server)
    one = callers.with_key(None)
    for path in (f"/api/v1/status?room={room}", "/api/check?room=chekout", f"/w/{room}", "/nowhere", "/healthz"):
        one("GET", path)
    owner("GET", f"/api/admin/rooms/{room}")
    owner("GET", "/api/admin/nowhere")

    after = scrape(server)

    def more(route: str, status: str) -> float:
        labels = {"route": route, "status": status}
        name = "qm_http_requests_total"
        return (after.value(name, **labels) or 0) - (before.value(name, **labels) or 0)

    assert more("/api/status", "2xx") == 1
    assert more("/api/check", "4xx") == 1
    assert more("/w/<room>", "2xx") == 1
    assert more("other", "4xx") == 2
    assert more("/healthz", "2xx") == 1
    assert more("/api/admin/rooms/<id>", "2xx") == 1
    count = "qm_http_request_seconds_count"
    assert after.value(count, route="/w/<room>") == (before.value(count, route="/w/<room>") or 0) + 1
    buckets = [
        value
        for labels, value in sorted(after.of("qm_http_request_seconds_bucket").items(), key=_bound)
        if dict(labels)["route"] == "/w/<room>"
    ]
    assert len(buckets) == 12
    assert buckets == sorted(buckets)
    assert buckets[-1] == after.value(count, route="/w/<room>")
    bounds = {dict(labels)["le"] for labels in after.of("qm_http_request_seconds_bucket")}
    assert bounds == {"0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "10.0", "+Inf"}
    assert (after.value("qm_http_request_seconds_sum", route="/w/<room>") or 0) > 0


def _bound(item: tuple[frozenset[tuple[str, str]], float]) -> float:
    return float(dict(item[0])["le"])


@pytest.mark.req("OBS-103")
def test_it_counts_commits_with_their_time(server: Server, owner: Caller) -> None:
    before = scrape(server).value("qm_journal_commits_total") or 0
    make_room(owner)
    after = scrape(server)
    assert (after.value("qm_journal_commits_total") or 0) > before
    assert after.value("qm_journal_commit_seconds_count") == after.value("qm_journal_commits_total")
    assert (after.value("qm_journal_commit_seconds_sum") or 0) > 0


@pytest.mark.req("OBS-056")
def test_a_room_that_is_gone_has_no_series(server: Server, owner: Caller) -> None:
    room = make_room(owner)
    assert scrape(server).value("qm_joins_total", room=room) == 0
    owner("DELETE", f"/api/admin/rooms/{room}")
    assert f'room="{room}"' not in scrape(server).text


@pytest.mark.req("OBS-187", "ENG-099")
def test_nothing_secret_is_logged_or_measured(server: Server, owner: Caller, callers: Callers) -> None:
    """At the most talkative level, with answers of every class: neither there, nor in the trail, nor in a refusal."""
    refusals: list[str] = []

    def refused(answer: httpx.Response) -> None:
        if answer.status_code >= 400:
            refusals.append(answer.text)

    room, mail = make_room(owner), "somebody@mail.example"
    person = callers.with_key(None)
    joined = person("POST", "/api/join", {"roomId": room})
    token = joined.json()["token"]
    cookies = [value for name, value in joined.cookies.items() if value != token]
    signed_in = callers.signed_in()
    session = str(signed_in.http.headers["Cookie"]).partition("=")[2]
    ticket = signed_in("POST", "/api/admin/sse-ticket").json()["ticket"]
    door = person("GET", f"/api/check?room={room}&url={TARGET}/&token={token}").json().get("doorKey", "")
    for method, path, body in (
        ("GET", f"/w/{room}?qm_token={token}", None),
        ("GET", f"/nowhere?qm_token={token}&key={server.admin_key}", None),
        ("GET", f"/api/status?room={room}&token={token}x", None),
        ("GET", f"/api/admin/me?key={server.admin_key}", None),
        ("GET", f"/api/admin/events?ticket={ticket}x", None),
        ("GET", f"/metrics?key={server.admin_key}", None),
        ("POST", "/api/notify", {"roomId": room, "token": token, "email": mail}),
        ("POST", "/api/join", b'{"token": "' + token.encode() + b'", '),
        ("GET", f"/api/check?room={room}&ip=203.0.113.9&agent=x&key={PUBLIC_KEY}", None),
    ):
        refused(person(method, path, body))
    refused(callers.with_key(server.admin_key + "x")("GET", "/api/admin/me"))
    refused(owner("POST", "/api/admin/rooms", {"id": room, "targetUrl": 7, "secret": server.admin_key}))
    refused(person("POST", "/api/join", {"roomId": room, "token": token, "returnUrl": [token]}))
    named = owner("POST", "/api/admin/operators", {"name": "Night ops", "role": "viewer"}).json()["key"]
    link = owner("POST", "/api/admin/monitor-tokens").json()["token"]
    refused(callers.with_key(named + "x")("GET", "/api/admin/me"))
    refused(callers.with_key(link)("POST", "/api/admin/rooms", {"id": room}))
    person("POST", "/api/leave", {"roomId": room, "token": token})

    told = server.stderr + scrape(server).text + owner("GET", "/api/admin/health").text + "".join(refusals)
    told += owner("GET", "/api/admin/audit?format=csv").text + owner("GET", "/api/admin/timeline").text
    secrets = [token, session, ticket, door, server.admin_key, PUBLIC_KEY, server.env["SECRET"], mail, *cookies]
    secrets += [named, link]
    assert len(secrets) > 10
    assert len(refusals) > 8
    assert [secret for secret in secrets if secret and secret in told] == []
    assert "room_created" in server.stderr


def worker_pids(server: Server) -> list[int]:
    return [pid for pid, line in server.descendants().items() if line.startswith("qm-web")]


@pytest.mark.req("OBS-053", "OBS-054")
def test_the_numbers_are_the_instance_s_whichever_worker_answers_and_outlive_a_worker(
    server: Server, owner: Caller, callers: Callers
) -> None:
    room = make_room(owner, queueMaxPerIp=1000)
    for _ in range(20):  # each over a connection of its own
        answer = httpx.post(f"{server.url}/api/join", json={"roomId": room})
        assert answer.status_code == 200
    assert {scrape(server).value("qm_joins_total", room=room) for _ in range(10)} == {20}
    answered = _answered(scrape(server))

    victim = worker_pids(server)[0]
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: len(worker_pids(server)) == 2 and victim not in worker_pids(server))

    for _ in range(10):
        found = scrape(server)
        assert found.value("qm_joins_total", room=room) == 20
        assert _answered(found) >= answered
        answered = _answered(found)
    assert found.value("qm_process_start_time_seconds") == scrape(server).value("qm_process_start_time_seconds")


def _answered(found: Scrape) -> float:
    return sum(found.of("qm_http_requests_total").values())


def test_promtool_finds_nothing_wrong_but_the_one_old_name(server: Server) -> None:
    done = promtool("check", "metrics", stdin=scrape(server).text)
    said = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("qm_edge_refused ")]
    assert said == []
