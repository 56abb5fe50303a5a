"""What is shipped for those who watch: rules, dashboard, scrape configuration, guide."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from app.core.metrics import METRICS, Kind
from tests.harness import ROOT
from tests.ops.tools import promtool

FOLDER = ROOT / "docs/monitoring"
GUIDE = " ".join((ROOT / "docs/monitoring.md").read_text().split())
NAMES = {metric.name for metric in METRICS} | {
    metric.name + "_bucket" for metric in METRICS if metric.kind is Kind.HISTOGRAM
}


def panels() -> list[dict[str, Any]]:
    return list(json.loads((FOLDER / "dashboard.json").read_text())["panels"])


def test_promtool_finds_the_rules_and_the_scrape_configuration_well() -> None:
    for words in (("check", "rules", "alerts.yml"), ("check", "config", "prometheus.yml")):
        done = promtool(*words, cwd=FOLDER)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_fire_when_they_should_and_not_before() -> None:
    done = promtool("test", "rules", "alerts_test.yml", cwd=FOLDER)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_reads_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    expressions = [target["expr"] for panel in panels() for target in panel.get("targets", ())]
    assert len(expressions) > 30
    rules = [
        {"record": f"panel:{number}", "expr": expr.replace("$__rate_interval", "5m").replace("$room", ".*")}
        for number, expr in enumerate(expressions)
    ]
    made = tmp_path / "rules.yml"
    made.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = promtool("check", "rules", str(made))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["monitoring/alerts.yml", "monitoring/dashboard.json", "monitoring.md"])
def test_every_series_named_exists(name: str) -> None:
    found = set(re.findall(r"\bqm_[a-z_]+", (ROOT / "docs" / name).read_text())) - {"qm_token", "qm_failover"}
    assert found - NAMES == set()
    assert len(found) > 15


def test_the_panels_of_the_dashboard_lie_beside_each_other() -> None:
    boxes = [panel["gridPos"] for panel in panels()]
    assert len({panel["id"] for panel in panels()}) == len(boxes)
    for one, other in itertools.combinations(boxes, 2):
        is_beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        is_above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert is_beside or is_above, (one, other)
    assert all(box["x"] + box["w"] <= 24 for box in boxes)


def told(*words: str) -> None:
    for word in words:
        assert word in GUIDE, word


@pytest.mark.req("OBS-107")
def test_the_guide_gives_the_job_and_says_why_it_needs_a_path() -> None:
    job = """  - job_name: queue-manager
    metrics_path: /metrics          # inline, on the public hostname: /__qm/metrics
    authorization: { type: Bearer, credentials: "<ADMIN_KEY>" }
    static_configs: [{ targets: ["qm.example.com"] }]
"""
    assert job in (ROOT / "docs/monitoring.md").read_text()
    told(
        "A scrape target is host and port and cannot carry a path",
        "the default path is the site's own (503, job `up=0` while the server is well)",
    )


@pytest.mark.req("OBS-108")
def test_the_guide_tells_how_several_instances_are_scraped() -> None:
    told(
        "scrape every instance, and sum in Prometheus",
        "With `honor_labels: false` (Prometheus' default) it arrives as `exported_instance`",
        "with `honor_labels: true` it is kept, and has to differ per target",
        "set distinct `QM_INSTANCE_ID`s, or none at all",
        "Two targets with one name write into one series",
        "Behind one address for the whole fleet (App Platform) a scrape reaches any instance",
        "the console is the fleet's view",
    )


@pytest.mark.req("OBS-109")
def test_the_guide_names_the_series_to_alert_on() -> None:
    told(
        "`qm_storage_write_errors_total` rises: **never leave this one out.**",
        "The *rate* of `qm_rejected_tokens_all_total`. Single refusals are old bookmarks.",
        "a whole room was thrown out by a new signing key or a clock that was set",
        "`qm_process_start_time_seconds` changes",
        *("qm_unknown_room_checks_total", "qm_blocked_return_urls_total", "qm_refused_key_checks_all_total"),
        *("qm_refused_origin_checks_total", "qm_rate_limited_checks_all_total", "qm_edge_refused"),
        *("qm_edge_client_ip_fallback_total", "qm_proxy_backend_down_total", "qm_proxy_origin_errors_total"),
        "qm_proxy_client_aborts_total",
    )


@pytest.mark.req("OBS-110")
def test_the_guide_gives_the_query_for_what_the_queue_never_heard_of() -> None:
    told("cannot be counted here", "SUM(_sample_interval)", "FROM qm_failover", "blob1 AS room, blob2 AS reason")
    told("every row is visitors who reached the origin unqueued")


@pytest.mark.req("OBS-022", "OBS-028", "OBS-138")
def test_the_guide_tells_what_to_probe_and_what_not_to_restart_for() -> None:
    told(
        "Do not restart a container because of `status` or `ready`",
        "A process that hangs is found by a probe that gets no answer",
        "| the process directly: pod IP, container port, `localhost` | `/healthz` | the queue |",
        "`/__qm/healthz`",
        '503 `{"code":"queued"}` for ever',
        "An ALB target group that is tied to the plain `/healthz` of such a host takes all healthy instances out",
        "An outside monitor on `/healthz` is needed in any case",
        "when it is dead, hung or cut off no webhook, no `resolved` and no panel will say so",
    )
