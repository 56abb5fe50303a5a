"""The command line: ``python -m app serve | migrate | check | docs [--check] | rooms export|import``.

Light on purpose: every process of the server imports this module again when it is started.
"""

from __future__ import annotations

import argparse
import sys


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code. 78 = refused by its configuration (CFG-179)."""
    from app.core.settings import Refused

    parser = argparse.ArgumentParser(prog="python -m app", description="Queue Manager: a self-hosted waiting room.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("serve", help="run the server")
    migrate = commands.add_parser("migrate", help="bring the shared Postgres' schema up to this build")
    migrate.add_argument("--post", action="store_true", help="also take away what the release before still used")
    commands.add_parser("check", help="read the settings, look at the shared stores, start nothing")
    docs = commands.add_parser("docs", help="write the generated documents")
    docs.add_argument("--check", action="store_true", help="write nothing; fail when one is out of date")
    rooms = commands.add_parser("rooms", help="copy the settings of all rooms of a running server; the key on stdin")
    rooms.add_argument("way", choices=("export", "import"))
    rooms.add_argument("--url", required=True, help="address of the server, such as https://queue.example")
    rooms.add_argument("file", help="file of the rooms; - for stdout")
    chosen = parser.parse_args(arguments)
    try:
        return _run(chosen)
    except Refused as refusal:
        sys.stderr.write(refusal.block() + "\n")
        return Refused.EXIT_CODE


def _run(chosen: argparse.Namespace) -> int:
    if chosen.command == "docs":
        from app.core import metrics_docs
        from app.core.settings_docs import write_documents
        from app.infrastructure.lua_docs import write_page

        pages = (write_documents, write_page, metrics_docs.write_page)
        return max([write(check=chosen.check) for write in pages])
    if chosen.command == "rooms":
        from app.process.room_copy import export_rooms, import_rooms

        key = sys.stdin.readline().strip()  # neither an argument nor a variable of every child process
        return (export_rooms if chosen.way == "export" else import_rooms)(chosen.url, key, chosen.file)
    from app.core.settings_rules import load

    if chosen.command == "serve":
        from app.process.stop import StopWish

        wish = StopWish()
        wish.install()  # before the long imports, so that a stop in the middle of them is an orderly one
        from app.process.start import serve

        try:
            return serve(load(), wish)
        finally:
            wish.deafen()
    from app.process import commands

    loaded = load()

    return commands.check(loaded) if chosen.command == "check" else commands.migrate(loaded, post=chosen.post)


if __name__ == "__main__":
    sys.exit(main())
