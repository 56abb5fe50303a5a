"""A little shop that sells one thing, with the queue's tag in its pages: the site behind the line.

`python -m loadtests.shop PORT QUEUE_URL ROOM`. It knows nothing of the queue but the one script line a customer
would paste, runs as a process and an origin of its own, and stands for the site that a surge would break.
"""

from __future__ import annotations

import contextlib
import html
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · The Little Shop</title>
<script src="{queue}/qm.js" data-room="{room}"></script>
<style>
  body {{ font: 17px/1.6 system-ui, sans-serif; max-width: 40rem; margin: 12vh auto; padding: 0 24px;
         color: #222; background: #fbf8f3 }}
  h1 {{ font-size: 2.2rem; line-height: 1.2; margin: 0 0 .4em }}
  a {{ color: #8a3b12 }}
</style>
<h1 id="shop">{title}</h1>
<p>You are inside. Only as many people as this shop can take are here with you.</p>
<p><a href="/">The shop</a> · <a href="/checkout">Checkout</a> · <a href="/imprint">Imprint</a></p>
</html>
"""
TITLES = {"/": "The Little Shop", "/checkout": "Checkout", "/imprint": "Imprint"}


def serve(port: int, queue: str, room: str, host: str = "127.0.0.1") -> None:
    """Serve the shop until interrupted."""

    class Shop(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            title = TITLES.get(self.path.split("?", 1)[0])
            body = PAGE.format(
                title=title or "Not here", queue=html.escape(queue, quote=True), room=html.escape(room, quote=True)
            ).encode()
            self.send_response(200 if title else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a visitor who was sent to the line
                self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            """Keep the terminal for the demo's own words."""

    ThreadingHTTPServer((host, port), Shop).serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2], sys.argv[3])
