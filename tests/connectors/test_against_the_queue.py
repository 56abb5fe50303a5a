"""The edge gate in front of a site, asking a server as operators start it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import signal
import tarfile
import tomllib
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from app.services.assets import STATIC_DIR
from tests.connectors.edge import CALL, KEY, Edge, cookies_of
from tests.harness import Server, wait_for

MARK = "x-qm-failover"
SITE = "https://shop.example"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(env={"PUBLIC_API_KEY": KEY, "VALKEY_TIMEOUT_MS": "500"}, workers=1) as made:
        with httpx.Client(base_url=made.url, headers={"authorization": f"Bearer {made.admin_key}"}) as admin:
            for room, rate in (("shop", 60_000), ("shut", 0)):
                body = {"id": room, "targetUrl": SITE + "/", "ratePerMinute": rate}
                assert admin.post("/api/admin/rooms", json=body).status_code == 200
        yield made


@pytest.fixture
def gate(edge: Edge, server: Server) -> Edge:
    """The Worker, asking the server."""
    edge.settings["QM_URL"] = server.url
    return edge


def come_in(server: Server, location: str) -> str:
    """What the waiting page does behind ``location``, until it is one's turn; the token to come back with."""
    asked = parse_qs(urlsplit(location).query)
    with httpx.Client(base_url=server.url) as browser:
        joined = browser.post("/api/join", json={"roomId": "shop", "from": asked["qm_from"][0]})
        assert joined.status_code == 200, joined.text

        wait_for(lambda: browser.get("/api/status?room=shop").json()["state"] == "passed")
    return str(joined.json()["token"])


@pytest.mark.req("PAG-052", "PAG-055", "PAG-056", "PAG-051")
def test_it_walks_a_visitor_through_the_queue_and_back(gate: Edge, server: Server) -> None:
    sent = gate.ask("/checkout?a=1")
    location = sent.headers["location"]
    assert sent.status_code == 302
    assert location.startswith(f"{server.url}/w/shop?")
    assert parse_qs(urlsplit(location).query)["qm_return"] == [SITE + "/checkout?a=1"]
    told = gate.ask("/api/cart", headers=CALL)
    assert (told.status_code, told.json()["code"]) == (503, "queued")
    assert gate.take()["site"] == []

    token = come_in(server, location)
    back = gate.ask(f"/checkout?a=1&qm_token={token}")
    assert (back.status_code, back.headers["location"]) == (302, SITE + "/checkout?a=1")
    jar = {name: line.split(";")[0].partition("=")[2] for name, line in cookies_of(back).items()}
    assert set(jar) == {"qm_shop", "qm_dk_shop"}
    assert jar["qm_shop"] == token

    for _ in range(2):
        page = gate.ask("/checkout?a=1", cookies=jar)
        assert (page.status_code, page.text, MARK in page.headers) == (200, "the site", False)
    moved_on = gate.ask("/api/cart", headers=CALL, cookies=jar, ip="198.51.100.77")
    assert moved_on.text == "the site", "the door key proves who he is"

    follower = gate.ask("/checkout?qm_token=somebody.elses", cookies=jar)
    assert (follower.status_code, follower.headers["location"]) == (302, SITE + "/checkout")
    assert cookies_of(follower).get("qm_shop", "").partition(";")[0] in ("", f"qm_shop={token}"), "his own stays"
    thief = gate.ask("/checkout", cookies={"qm_shop": jar["qm_shop"]}, ip="198.51.100.78")
    assert thief.headers["location"].startswith(server.url)


@pytest.mark.req("PAG-057")
@pytest.mark.parametrize(
    ("settings", "reason"),
    [({"QM_API_KEY": "not-the-key"}, "http-401"), ({"QM_ROOM": "nowhere"}, "http-404")],
)
def test_a_wrong_deployment_is_told_apart(gate: Edge, settings: dict[str, str], reason: str) -> None:
    answer = gate.ask(**settings)

    assert (answer.status_code, answer.text, answer.headers[MARK]) == (200, "the site", reason)


@pytest.mark.req("PAG-069")
def test_strangers_provoke_no_refusal_of_the_real_queue(gate: Edge, server: Server) -> None:
    found = gate.fuzz(150, url=server.url, key=KEY)

    assert found["reached"] == 0, found
    assert set(found["statuses"]) == {"302", "503"}


def frozen(server: Server) -> int:
    """Stop the server's Valkey as a hung host would; its process id."""
    (pid,) = [pid for pid, line in server.descendants().items() if "valkey-server" in line]
    os.kill(pid, signal.SIGSTOP)
    return pid


@pytest.mark.req("FLT-064", "PAG-057")
def test_it_fails_open_while_the_queues_store_is_away(gate: Edge, server: Server) -> None:
    pid = frozen(server)
    try:
        wait_for(lambda: gate.ask("/checkout").headers.get(MARK) == "http-503")
        page, call = gate.ask("/checkout", QM_ANALYTICS="on"), gate.ask("/api/cart", headers=CALL)
        shut = gate.ask("/checkout", FAIL_MODE="closed")
    finally:
        os.kill(pid, signal.SIGCONT)

    for answer in (page, call):
        assert (answer.status_code, answer.text, answer.headers[MARK]) == (200, "the site", "http-503")
    assert (shut.status_code, shut.headers[MARK]) == (503, "http-503")
    assert {tuple(point["blobs"]) for point in gate.take()["points"]} == {("shop", "http-503")}
    wait_for(lambda: gate.ask("/checkout").status_code == 302)  # queued again, now that the store is back


@pytest.mark.req("PAG-040", "PAG-045", "PAG-046")
def test_the_server_hands_out_what_was_tested_here(server: Server) -> None:
    paths = [f"/connectors/cloudflare/{version}.{end}" for end in ("js", "tgz") for version in ("latest", "1.2.0")]
    with httpx.Client(base_url=server.url) as anybody:
        answers = [anybody.get(path) for path in paths]
        heads = [anybody.head(path) for path in paths]
        same = anybody.get(paths[0], headers={"if-none-match": answers[0].headers["etag"]})
        absent = [
            anybody.get(f"/connectors/{path}") for path in ("cloudflare/1.1.0.js", "cloudflare/x", "nope/latest.js")
        ]

    for answer, head in zip(answers, heads, strict=True):
        assert (answer.status_code, head.status_code, head.content) == (200, 200, b"")
        assert head.headers["content-length"] == answer.headers["content-length"] == str(len(answer.content))
        assert answer.headers["cache-control"] == "no-store", "without PUBLIC_URL nobody keeps it"
        assert answer.headers["content-disposition"].startswith('attachment; filename="qm-edge-gate-1.2.0.')
    assert same.status_code == 304
    assert answers[0].headers["content-type"].startswith("text/javascript")
    assert answers[0].content == answers[1].content
    assert answers[2].headers["content-type"] == "application/gzip"
    assert answers[2].content == answers[3].content
    assert [(one.status_code, one.json()["code"]) for one in absent] == [(404, "not_found")] * 3

    with tarfile.open(fileobj=io.BytesIO(answers[2].content), mode="r:gz") as tar:
        files = {entry.name: tar.extractfile(entry).read() for entry in tar}  # type: ignore[union-attr]
        assert {(entry.mtime, entry.uid, entry.mode) for entry in tar} == {(0, 0, 0o644)}
    assert set(files) == {
        f"qm-edge-gate-1.2.0/{name}" for name in ("README.md", "package.json", "worker.js", "wrangler.toml")
    }
    assert files["qm-edge-gate-1.2.0/worker.js"] == answers[0].content
    assert json.loads(files["qm-edge-gate-1.2.0/package.json"])["version"] == "1.2.0"
    assert gzip.decompress(answers[2].content)
    everything = b"".join(files.values())
    assert server.admin_key.encode() not in everything
    assert KEY.encode() not in everything
    digest = base64.urlsafe_b64encode(hashlib.sha256(answers[0].content).digest()).decode()
    assert answers[0].headers["etag"] == f'"{digest[:22]}"'


def project(name: str) -> str:
    return (STATIC_DIR / "connectors/cloudflare" / name).read_text("utf-8")


@pytest.mark.req("PAG-059")
def test_the_readme_says_what_the_mark_means_here() -> None:
    readme = " ".join(project("README.md").split())

    for words in (
        "The request goes to the site unqueued and its answer carries `X-QM-Failover`",
        *("| `timeout` |", "| `unreachable` |", "| `http-<status>` |", "| `invalid-response` |"),
        "The same header of the failover Worker means that its offline page was shown; here it means that somebody was "
        "sent on unqueued.",
        "A wrong key then closes the site.",
    ):
        assert words in readme, words


@pytest.mark.req("PAG-048")
def test_it_hands_out_sixty_a_minute(server: Server) -> None:
    with httpx.Client(base_url=server.url) as anybody:
        while (answer := anybody.head("/connectors/cloudflare/latest.js")).status_code == 200:
            assert int(answer.headers.get("x-ratelimit-remaining", 60)) >= 0
        refused = anybody.get("/connectors/cloudflare/latest.js")
        page = anybody.get("/offline.html")

    assert refused.status_code == 429
    assert refused.headers["content-type"].startswith("text/plain")
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert page.status_code == 200, "it is a budget of its own"


@pytest.mark.req("PAG-063")
def test_the_project_has_the_dataset_commented_out() -> None:
    text = project("wrangler.toml")
    given = tomllib.loads(text)
    assert "analytics_engine_datasets" not in given
    assert given["main"] == "worker.js"
    assert set(given["vars"]) == {"QM_URL", "QM_ROOM"}, "the key is a secret and stands in no file"
    with_it = tomllib.loads(  # as whoever wants it makes of it
        "\n".join(line.removeprefix("# ") if "[[ana" in line or line.startswith(("# binding", "# dataset")) else line
                  for line in text.splitlines())
    )  # fmt: skip
    assert with_it["analytics_engine_datasets"] == [{"binding": "QM_ANALYTICS", "dataset": "qm_failover"}]


@pytest.mark.req("FLT-064", "PAG-003")
def test_it_fails_open_when_the_server_is_gone(gate: Edge, server: Server) -> None:
    server.stop()

    answer = gate.ask("/checkout")

    assert (answer.status_code, answer.text, answer.headers[MARK]) == (200, "the site", "unreachable")
