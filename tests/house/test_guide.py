"""What the operators' guide has to tell, so that nobody locks his visitors out by following it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.core.settings import ROWS
from blueprints.admin import reports

ROOT = Path(__file__).resolve().parents[2]
GUIDE = " ".join((ROOT / "docs/operations.md").read_text().split())


def in_order(*words: str) -> None:
    """Each of ``words`` stands in the guide, behind the one before it."""
    at = 0
    for word in words:
        assert word in GUIDE[at:], word
        at = GUIDE.index(word, at) + len(word)


@pytest.mark.req("CFG-135")
def test_it_sets_the_edge_secret_up_in_the_order_that_refuses_nobody() -> None:
    in_order(
        "openssl rand -hex 32",
        "Transform Rules → Modify Request Header → Set static",
        "`X-QM-Edge`",
        "`Hostname equals`",
        "never for all incoming requests",
        "hand the secret to every other origin of the zone",
        "Deploy the rule",
        "Set `EDGE_SECRET` to the same value and deploy",
    )


@pytest.mark.req("CFG-134")
def test_it_changes_the_edge_secret_in_three_steps() -> None:
    in_order("`EDGE_SECRET=old,new` and deploy", "change the rule to the new value", "`EDGE_SECRET=new` and deploy")


@pytest.mark.req("CFG-230", "CFG-101", "CFG-115")
def test_it_tells_what_a_wrong_number_of_proxies_does() -> None:
    in_order("about 94 % of the joins")
    in_order(
        "`TRUST_PROXY=2` and the addresses of the load balancer, which must then accept connections from the CDN only"
    )
    in_order("not listed gets cookies without `Secure`; list it, or set `COOKIE_SECURE=1`")
    in_order("hands that choice to every visitor", "made-up header", "audit trail", "X-Forwarded-For: 192.0.2.1")


@pytest.mark.req("CFG-177")
def test_it_asks_for_enough_files() -> None:
    in_order("2 × `MAX_CONNECTIONS` + `CONNECTION_RESERVE` + 256")


@pytest.mark.req("VIS-078")
def test_it_tells_connectors_what_a_refused_check_is_not() -> None:
    integration = " ".join((Path(__file__).resolve().parents[2] / "docs/integration.md").read_text().split())

    assert '`429` means "send him to the waiting page"' in integration


@pytest.mark.req("ADM-028")
def test_it_tells_what_a_leaked_public_key_opens() -> None:
    in_order(
        "A leaked `PUBLIC_API_KEY` changes no room and reads no list; treat it as a secret all the same and change it"
    )


@pytest.mark.req("ADM-030")
def test_it_advises_keys_of_peoples_own() -> None:
    in_order("`ADMIN_KEY`", "one shared secret without a person's name")
    in_order("keep it for emergencies, and give everybody a key of his own")


@pytest.mark.req("ADM-281")
def test_it_says_that_nothing_is_reported_by_itself() -> None:
    in_order("There is no scheduled report, no report by e-mail and no export to a warehouse")
    settings = {row.name for row in ROWS.values()}
    assert not [name for name in settings if "REPORT" in name or "WAREHOUSE" in name]


@pytest.mark.req("ADM-031")
def test_it_tells_what_a_leaked_key_opens_and_what_to_do() -> None:
    in_order("keep it for emergencies, and give everybody a key of his own")
    in_order(
        "A leaked `ADMIN_KEY` means every room, every look-up of a visitor, every operator and shutdown",
        "change it and restart, which ends every session that was opened with it",
    )
    in_order(
        "A leaked `PUBLIC_API_KEY` changes no room and reads no list; treat it as a secret all the same and change it"
    )


@pytest.mark.req("ADM-054")
def test_it_gives_the_lock_as_a_reason_to_declare_the_proxy() -> None:
    in_order("all callers share one address, and one guesser locks out everybody: declare it")


@pytest.mark.req("ADM-299", "ADM-300")
def test_it_shows_how_old_rows_are_removed_and_a_seal_is_kept_outside() -> None:
    in_order("DISABLE TRIGGER audit_only_grows", "DELETE FROM audit", "ENABLE TRIGGER audit_only_grows")
    in_order("keep a copy of the latest `seal` elsewhere, for example with your backup")


def fixed_sentences() -> list[str]:
    """What operators search their logs for, as the contract has it (OBS-185)."""
    spec = (ROOT / "docs/spec/08-health-metrics-alerts.md").read_text()
    (line,) = [line for line in spec.splitlines() if line.startswith("- **OBS-185**")]
    return re.findall(r"`([^`]+)`", line)


@pytest.mark.req("OBS-185")
def test_it_names_the_sentences_to_search_the_log_for() -> None:
    """In the guide with their meaning, and in the code as they stand there."""
    monitoring = (ROOT / "docs/monitoring.md").read_text()
    code = "".join(path.read_text() for path in (ROOT / "app").rglob("*.py"))

    sentences = fixed_sentences()
    assert len(sentences) == 7
    for sentence in sentences:
        assert f"| `{sentence}` | " in monitoring, sentence
        assert sentence.rpartition("… ")[2] in code, sentence


@pytest.mark.req("OBS-175", "ADM-281")
def test_it_says_that_reports_come_when_they_are_asked_for_and_in_no_other_way() -> None:
    in_order(
        "`format=csv` is the interface to everything else",
        "There is no scheduled report, no report by e-mail and no export to a warehouse",
    )
    assert [route.path for route in reports.ROUTES] == ["reports"]
    assert {route.method for route in reports.ROUTES} == {"GET"}
    assert not [name for name in ROWS if re.search("REPORT|WAREHOUSE|EXPORT", str(name))]


@pytest.mark.req("PAG-064", "PAG-065", "PAG-066")
def test_it_tells_how_to_hear_of_visitors_who_passed_unqueued() -> None:
    text = (ROOT / "docs/integration.md").read_text()
    guide = " ".join(text.split())
    query = text[text.index("SELECT blob1") :].split("```")[0]

    assert "SUM(_sample_interval)" in query
    assert "COUNT" not in query
    assert "INTERVAL '5' MINUTE GROUP BY blob1, blob2" in query
    for words in (
        "with a token that has *Account Analytics: Read*, from a system that already pages people",
        "every few minutes",
        "not `COUNT()`, since the engine samples",
        "Any row is an alert: each is visitors who reached the origin unqueued",
        "timeout` or `unreachable` (the queue is down or overloaded: see `/healthz`)",
        "`http-5xx` down or overloaded",
        "curl -sI https://shop.example.com/checkout | grep -i x-qm-failover",
        "The queue has no endpoint to which a Worker reports missed checks afterwards",
        "a Worker's memory is that of one isolate, a `401` could never be reported",
        "one more way to write to the server",
    ):
        assert words in guide, words


def section_on_strangers(guide: str) -> str:
    text = (ROOT / guide).read_text()
    found = re.search(r"^## What strangers will try\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    assert found, guide
    return " ".join(found[1].split())


@pytest.mark.req("PAG-221")
def test_both_guides_tell_what_strangers_will_try() -> None:
    for guide in ("docs/operations.md", "docs/integration.md"):
        told = section_on_strangers(guide)
        assert "everybody but the CDN, the Worker or Queue Manager" in told, guide
        assert "32 random characters" in told
        for name in ("QM_CONNECTOR_IPS", "EDGE_SECRET", "PUBLIC_URL", "ADMIN_HOST", "sessionMaxPerIp", "X-QM-Failover"):
            assert f"`{name}" in told, (guide, name)
        assert "proxies" in told
        assert "onBackendDown: open" in told
        assert "alert" in told
        assert "he tag alone keeps out nobody who does not run it" in told
        assert "cache pages of a gated host" in told
        assert "any real addresses" in told
    shapes = section_on_strangers("docs/operations.md")
    assert len(re.findall(r"\| (tag in the page|Worker or own server|inline) \|", shapes)) == 3


@pytest.mark.req("PAG-001", "PAG-006")
def test_it_compares_the_three_ways_as_the_contract_does() -> None:
    """So that nobody chooses by which is the easiest to install."""
    spec = (ROOT / "docs/spec/09-connectors-and-pages.md").read_text()
    rows = re.findall(r"^\| (.+) \|$", spec.partition("- **PAG-006**")[2].partition("- **PAG-007**")[0], re.M)
    guide = (ROOT / "docs/integration.md").read_text()
    table = guide.partition("\n| |")[2].partition("\n\n")[0]

    assert "they break differently. Choose by that, not by which is the easiest to install" in " ".join(guide.split())
    told = {cells[0]: cells[1:] for row in table.splitlines() if len(cells := row.strip("| ").split(" | ")) == 4}
    assert len(rows) == 10
    for row in rows[1:]:
        if row.startswith("---"):
            continue
        name, *cells = row.replace("the customer's side", "your side").replace("customer's", "your").split(" | ")
        assert told[name] == [
            cell.replace("origin opens", "site opens").replace("QM itself", "Queue Manager itself") for cell in cells
        ], name


@pytest.mark.req("PAG-167")
def test_it_gives_three_ways_to_deploy_without_a_shared_store() -> None:
    in_order(
        "No sticky sessions are needed for that",
        "one of three ways",
        "deploy all instances at once",
        "keep a visitor on one instance while a page loads",
        "(DigitalOcean App Platform has none)",
        "keep the files of the build before reachable, from a CDN or an object store in front of `/assets/`",
        "The cache of a CDN alone is not enough",
    )
