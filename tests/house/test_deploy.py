"""The examples of deploying, as far as a test can hold them to the server: settings, commands, probes, times."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.core.settings import ROWS
from app.core.settings_rules import load

ROOT = Path(__file__).resolve().parents[2]
START = ["python", "-m", "app", "serve"]
GIVEN = {
    "SECRET": "s" * 64, "ADMIN_KEY": "a" * 32, "PUBLIC_API_KEY": "p" * 32,
    "VALKEY_URL": "rediss://:pass@valkey:6379/0", "DATABASE_URL": "postgresql://qm:pass@postgres/qm",
}  # fmt: skip
"""What an operator puts in; secrets have no value in a file."""


def read(path: str) -> list[Any]:
    """Documents of a YAML file."""
    return list(yaml.safe_load_all((ROOT / path).read_text("utf-8")))


def assert_taken(env: dict[str, str], *, production: bool = True) -> None:
    """The server starts with these settings and has nothing to complain about."""
    known = {row.name for row in ROWS.values()}
    assert set(env) - known == set()
    loaded = load({**GIVEN, **env})
    complaints = [warning.message for warning in loaded.warnings if warning.raises_badge]
    assert complaints == []
    assert loaded.settings.is_production is production
    drain_sec = loaded.settings.shutdown_drain_ms / 1000
    assert drain_sec < 30, "graces below are measured against it"


@pytest.mark.req("CFG-218", "CFG-219", "CFG-220", "BUD-070")
def test_the_app_spec_starts_two_instances_with_everything_they_need() -> None:
    (spec,) = read(".do/app.yaml")
    (service,) = spec["services"]
    procfile = (ROOT / "Procfile").read_text().splitlines()
    assert procfile == [f"web: {service['run_command']}"]
    assert service["run_command"].split() == ["env", "HOST=0.0.0.0", *START]
    assert service["instance_count"] >= 2
    text = (ROOT / ".do/app.yaml").read_text()
    above = text[: text.index("instance_count: ")].splitlines()[-2]
    assert re.search(r"# Never below 2: .*one crash", above)
    check = service["health_check"]
    assert (check["http_path"], check["period_seconds"], check["timeout_seconds"], check["failure_threshold"]) == (
        "/healthz", 5, 3, 3,
    )  # fmt: skip
    assert service["termination"]["drain_seconds"] == 15
    assert service["termination"]["grace_period_seconds"] >= 30
    values = {one["key"]: one.get("value") for one in service["envs"]}
    secrets = {one["key"] for one in service["envs"] if one.get("type") == "SECRET"}
    assert secrets == {"SECRET", "ADMIN_KEY", "PUBLIC_API_KEY", "EDGE_SECRET"}
    assert all(values[name] is None for name in secrets)
    assert values["PORT"] == str(service["http_port"])
    assert values["FLEET_MIN_INSTANCES"] == str(service["instance_count"])
    assert values["FLEET_MIN_REASON"]
    assert int(values["INSTANCE_MIN_CPUS"] or 0) >= 2
    for name in ("FLEET_MIN_INSTANCES", "INSTANCE_MIN_CPUS"):
        assert re.search(rf"# Never lower this: .+\n +- {{key: {name},", text)
    assert {"VALKEY_URL", "DATABASE_URL", "PG_CA_CERT", "PUBLIC_URL"} <= set(values)
    bound = {name: re.fullmatch(r"\$\{(\w+)\.\w+\}", values[name] or "") for name in ("VALKEY_URL", "DATABASE_URL")}
    named = {one["name"]: one["engine"] for one in spec["databases"]}
    assert {name: named[match[1]] for name, match in bound.items() if match} == {
        "VALKEY_URL": "VALKEY", "DATABASE_URL": "PG",
    }  # fmt: skip
    left_out = secrets | {"VALKEY_URL", "DATABASE_URL", "PG_CA_CERT"}
    assert_taken({**{name: value for name, value in values.items() if name not in left_out}, "EDGE_SECRET": "e" * 32})


def test_the_compose_file_runs_two_instances_on_shared_stores_behind_a_declared_proxy() -> None:
    (spec,) = read("docs/deploy/compose.yaml")
    services = spec["services"]
    instances = [one for one in services.values() if "QM_ENV" in (one.get("environment") or {})]
    assert len(instances) == 2
    assert len({one["environment"]["QM_INSTANCE_ID"] for one in instances}) == 2
    for one in instances:
        env = {name: re.sub(r"\$\{\w+:\?\}", "x" * 40, value) for name, value in one["environment"].items()}
        assert_taken(env)
        assert one["stop_grace_period"] == "30s"
        assert "/healthz" in " ".join(one["healthcheck"]["test"])
        assert (ROOT / "docs/deploy" / one["build"]["context"]).resolve() == ROOT
        assert (ROOT / one["build"]["dockerfile"]).is_file()
        assert set(one["depends_on"]) <= set(services)
        assert env["TRUST_PROXY_IPS"] == services["proxy"]["networks"]["inside"]["ipv4_address"]
    assert "--maxmemory-policy noeviction" in services["valkey"]["command"]


def test_the_image_holds_what_the_server_is_made_of_and_starts_it() -> None:
    lines = (ROOT / "docs/deploy/Dockerfile").read_text().splitlines()
    copied = {line.split()[1] for line in lines if line.startswith("COPY")}
    assert all((ROOT / name).exists() for name in copied)
    assert {"app", "blueprints", "workers", "static", "locales", "requirements.lock"} <= copied
    (command,) = (line for line in lines if line.startswith("CMD"))
    assert yaml.safe_load(command.removeprefix("CMD ")) == START
    wanted = re.search(r'requires-python = ">=(3\.\d+)', (ROOT / "pyproject.toml").read_text())
    assert wanted is not None
    assert f"FROM python:{wanted[1]}-slim" in lines


def test_the_kubernetes_example_is_ready_by_healthz_and_never_restarted_by_it() -> None:
    deployment, service, budget = read("docs/deploy/kubernetes.yaml")
    assert [one["kind"] for one in (deployment, service, budget)] == ["Deployment", "Service", "PodDisruptionBudget"]
    assert [one["apiVersion"] for one in (deployment, service, budget)] == ["apps/v1", "v1", "policy/v1"]
    assert deployment["spec"]["replicas"] >= 2
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for selector in (deployment["spec"]["selector"]["matchLabels"], service["spec"]["selector"],
                     budget["spec"]["selector"]["matchLabels"]):  # fmt: skip
        assert selector.items() <= labels.items()
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["terminationGracePeriodSeconds"] >= 30
    assert container["command"] == START
    assert container["readinessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert "httpGet" not in container["livenessProbe"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    env = {one["name"]: one.get("value", "queue-manager-5d7c9-x2x4z") for one in container["env"]}
    assert ports["http"] == int(env["PORT"])
    assert service["spec"]["ports"][0]["targetPort"] == "http"
    assert container["envFrom"] == [{"secretRef": {"name": "queue-manager"}}]
    assert_taken(env)


def test_the_unit_stops_the_server_itself_and_does_not_restart_what_refused() -> None:
    path = ROOT / "docs/deploy/queue-manager.service"
    lines = [line.partition("=") for line in path.read_text().splitlines() if "=" in line and not line.startswith("#")]
    unit = {name: value for name, _, value in lines}
    assert unit["ExecStart"].split()[1:] == START[1:]
    assert unit["KillMode"] == "mixed"
    assert int(unit["TimeoutStopSec"]) >= 30
    assert unit["RestartPreventExitStatus"] == "78"
    settings = load({}).settings
    assert int(unit["LimitNOFILE"]) > settings.max_connections + settings.connection_reserve
    name, _, value = unit["Environment"].partition("=")
    assert_taken({name: value}, production=False)
    verify = shutil.which("systemd-analyze")
    if verify is not None:
        done = subprocess.run([verify, "verify", "--man=no", str(path)], capture_output=True, text=True, check=False)
        # The server is not installed where this test runs; nothing else may be wrong.
        said = [line for line in done.stderr.splitlines() if path.name in line and "is not executable" not in line]
        assert said == []


def test_the_command_of_every_example_is_one_of_the_server() -> None:
    done = subprocess.run([sys.executable, *START[1:], "--help"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "usage: python -m app serve" in done.stdout
