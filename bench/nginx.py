"""nginx, where the machine has one: the origin behind the proxies that are compared, and the plain proxy of them."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import psutil

PROGRAM: Final = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
SIZES: Final = {"130": 130, "64k": 65_536, "1m": 1_048_576}
"""Files of the origin by name, with their size in bytes; ``.css`` and ``.html`` of each."""
_HTTP: Final = """
daemon off; pid {dir}/{name}.pid; error_log stderr crit; worker_processes 1;
events {{ worker_connections 2048; }}
http {{
  access_log off; keepalive_requests 100000000; keepalive_timeout 300s; client_max_body_size 8m;
  client_body_temp_path {dir}/{name}-body; proxy_temp_path {dir}/{name}-proxy; fastcgi_temp_path {dir}/{name}-f;
  uwsgi_temp_path {dir}/{name}-u; scgi_temp_path {dir}/{name}-s;
  types {{ text/html html; text/css css; }}
  {body}
}}
"""
# A form is read whole before it is answered, as an app does it; `return` alone would answer over its head.
_ORIGIN: Final = """upstream itself {{ server unix:{dir}/origin.sock; keepalive 64; }}
  server {{
    listen 127.0.0.1:{port} backlog=1024; listen unix:{dir}/origin.sock backlog=1024;
    root {dir}/files; sendfile on; tcp_nopush on; open_file_cache max=100;
    location = /ok {{ return 200 "ok"; }}
    location = /post {{
      client_body_buffer_size 2m; proxy_pass http://itself/ok; proxy_method GET; proxy_pass_request_body off;
      proxy_set_header Content-Length ""; proxy_set_header Connection ""; proxy_http_version 1.1;
    }}
  }}"""
_PROXY: Final = """upstream origin {{ server 127.0.0.1:{origin}; keepalive 64; }}
  server {{
    listen 127.0.0.1:{port} backlog=1024;
    location / {{
      proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_buffering off; proxy_request_buffering off;
      proxy_buffer_size 64k; proxy_buffers 8 64k;
    }}
  }}"""


@contextlib.contextmanager
def running(origin: int, proxy: int) -> Iterator[tuple[psutil.Process, psutil.Process]]:
    """Origin and proxy on these ports; their one worker process each."""
    assert PROGRAM is not None
    with tempfile.TemporaryDirectory(prefix="qm-bench-nginx-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        files = folder / "files"
        files.mkdir()
        for kind in ("css", "html"):
            for stem, size in SIZES.items():
                (files / f"{stem}.{kind}").write_bytes(b"x" * size)
        started: list[subprocess.Popen[bytes]] = []
        try:
            workers = [
                _start(folder, "origin", _ORIGIN.format(port=origin, dir=folder), started),
                _start(folder, "proxy", _PROXY.format(port=proxy, origin=origin), started),
            ]
            yield workers[0], workers[1]
        finally:
            for process in started:
                process.terminate()
                process.wait(timeout=10)


def _start(folder: Path, name: str, body: str, started: list[subprocess.Popen[bytes]]) -> psutil.Process:
    path = folder / f"{name}.conf"
    path.write_text(_HTTP.format(dir=folder, name=name, body=body))
    command: Sequence[str] = (str(PROGRAM), "-p", str(folder), "-c", str(path))
    started.append(subprocess.Popen(command))
    return _worker(started[-1])


def _worker(master: subprocess.Popen[bytes]) -> psutil.Process:
    while True:
        found = psutil.Process(master.pid).children()
        if found:
            return found[0]
        if master.poll() is not None:
            raise RuntimeError("nginx did not start")
