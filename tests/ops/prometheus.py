"""A real Prometheus that scrapes servers under test."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

import httpx

from app.core.parent_death import die_with_parent_before_exec
from tests.harness import Server, wait_for
from tests.ops.tools import program


class Prometheus:
    """Scrapes ``servers`` five times a second, in job ``honest`` with ``honor_labels``, in job ``default`` without."""

    def __init__(self, *servers: Server) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="qm-prometheus-")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._address = f"127.0.0.1:{free.getsockname()[1]}"
        groups = [
            {
                "job_name": f"{name}-{number}",
                "honor_labels": name == "honest",
                "authorization": {"type": "Bearer", "credentials": server.admin_key},
                "static_configs": [{"targets": [server.url.removeprefix("http://")], "labels": {"job": name}}],
            }
            for name in ("honest", "default")
            for number, server in enumerate(servers)
        ]
        config = {"global": {"scrape_interval": "200ms", "scrape_timeout": "200ms"}, "scrape_configs": groups}
        self._config = Path(self._folder.name) / "prometheus.yml"
        self._config.write_text(json.dumps(config))
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, query: str) -> list[tuple[dict[str, str], float]]:
        """Labels and values of an instant query."""
        answer = httpx.get(f"http://{self._address}/api/v1/query", params={"query": query}).json()
        assert answer["status"] == "success", answer
        return [(one["metric"], float(one["value"][1])) for one in answer["data"]["result"]]

    def __enter__(self) -> Prometheus:
        self._process = subprocess.Popen(
            [
                program("prometheus"),
                f"--config.file={self._config}",
                f"--storage.tsdb.path={self._folder.name}/data",
                f"--web.listen-address={self._address}",
                "--log.level=error",
            ],
            cwd=self._folder.name,
            preexec_fn=die_with_parent_before_exec(os.getpid()),
        )
        wait_for(self._is_ready)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(20)
        self._folder.cleanup()

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"http://{self._address}/-/ready").status_code == 200
        except httpx.TransportError:
            return False
