"""Origins that read targets as frameworks do: Node, Express, a WSGI application, nginx. Each tells the path it took."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

SITES = Path(__file__).parent / "sites"
PACKAGES = Path(__file__).parents[2] / ".tools/sites/node_modules"
NODE = """
const server = require('http').createServer((request, answer) => {
  let path;
  try { path = new URL(request.url, 'http://site').pathname; } catch { path = request.url; }
  try { path = decodeURIComponent(path); } catch {}
  const method = request.headers['x-http-method-override'] || request.method;
  answer.setHeader('X-Took', encodeURIComponent(request.headers['x-original-url'] || path) + ' ' + method);
  answer.end('ok');
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
"""
NGINX = """
daemon off; worker_processes 1; pid {folder}/pid; error_log stderr crit; events {{ }}
http {{
  access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port};
    location / {{ add_header X-Took-Raw "$uri $request_method" always; return 200 "ok"; }}
  }}
}}
"""
"""``$uri`` is decoded and has its dots and doubled slashes resolved, as locations and the paths of files see it."""


@contextlib.contextmanager
def nginx(folder: Path) -> Iterator[str]:
    """An nginx, which resolves targets before anything behind it sees them."""
    places = (os.environ.get("PATH", ""), "/usr/sbin", str(Path(__file__).parents[2] / ".tools/usr/sbin"))
    program = next(filter(None, (shutil.which("nginx", path=place) for place in places)), None)
    assert program, "nginx is missing: run .ci/ensure"
    with socket.create_server(("127.0.0.1", 0)) as listening:  # given over, so that nobody else takes the port
        port, number = listening.getsockname()[1], listening.fileno()
        (folder / "conf").write_text(NGINX.format(folder=folder, port=port))
        command = [program, "-p", str(folder), "-c", str(folder / "conf")]
        process = subprocess.Popen(command, env={"NGINX": f"{number};"}, pass_fds=[number])
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def node(*script: str) -> Iterator[str]:
    """A Node server that resolves targets as its URL class does; or another one, which says its port."""
    assert shutil.which("node"), "node is missing: run .ci/ensure"
    command, env = ["node", *(script or ("-e", NODE))], {**os.environ, "NODE_PATH": str(PACKAGES)}
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def site(name: str) -> contextlib.AbstractContextManager[str]:
    """A Node server of ``sites/``, made of packages of the registry."""
    assert PACKAGES.is_dir(), "the packages of the test sites are missing: run .ci/ensure"
    return node(str(SITES / f"{name}.js"))


@contextlib.contextmanager
def wsgi() -> Iterator[str]:
    """A WSGI server, which decodes targets before its application sees them."""

    def application(environ, start_response):  # type: ignore[no-untyped-def]
        from urllib.parse import quote

        path = environ["PATH_INFO"]
        start_response("200 OK", [("X-Took", quote(path.encode("latin-1")) + " " + environ["REQUEST_METHOD"])])
        return [b"ok"] if environ["REQUEST_METHOD"] != "HEAD" else []

    class Quiet(WSGIRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server: WSGIServer = make_server("127.0.0.1", 0, application, handler_class=Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
