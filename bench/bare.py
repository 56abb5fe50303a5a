"""The yardstick: a bare Sanic JSON handler, stock protocol, one process. `python -m bench.bare PORT`."""

from __future__ import annotations

import sys

from sanic import HTTPResponse, Request, Sanic
from sanic.response import json

app = Sanic("bare")


@app.route("/", methods=["GET", "POST"])
async def bare(_request: Request) -> HTTPResponse:
    """Answer the smallest JSON object there is."""
    return json({"ok": True})


if __name__ == "__main__":
    app.run("127.0.0.1", int(sys.argv[1]), single_process=True, access_log=False, motd=False)
