"""Origins that read targets as frameworks do: a Node server and a WSGI application. Each answers the path it took."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import threading
from collections.abc import Iterator
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

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


@contextlib.contextmanager
def node() -> Iterator[str]:
    """A Node server that resolves targets as its URL class does."""
    assert shutil.which("node"), "node is needed to read targets as Node does"
    process = subprocess.Popen(["node", "-e", NODE], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


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
