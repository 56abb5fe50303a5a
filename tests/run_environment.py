"""What the environment of a test run asks for, and what is refused in it (CFG-087 … CFG-090, 14 part A).

Pure: nothing here connects or starts anything, so that a refusal comes before both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

AUTO = "auto"
STORES = ("memory", "embedded", "valkey")
SUFFIX = "_test"
_ON = {"1", "true", "yes", "on"}


class Refused(Exception):
    """The run may not begin; the text names the rule that is broken, and no password."""


@dataclass(frozen=True, slots=True)
class RunEnvironment:
    """One test run: what its servers store in, and which command starts them."""

    store: str
    """``STORE`` of every server whose test does not say otherwise."""
    valkey_url: str | None
    """Of the shared stores; ``auto`` = throw-away ones; None = there are none."""
    database_url: str | None
    must_have_stores: bool
    """Tests that need the shared stores fail without them."""
    command: tuple[str, ...] | None
    """Words of another server command; None = this product's own."""

    @property
    def has_stores(self) -> bool:
        """True when tests have shared stores to go to."""
        return bool(self.valkey_url and self.database_url)


def read(env: Mapping[str, str]) -> RunEnvironment:
    """The run that ``env`` asks for; raises Refused. ``VALKEY_URL`` and ``DATABASE_URL`` are not looked at."""
    texts = {name: text.strip() for name, text in env.items()}
    store = texts.get("STORE") or STORES[0]
    if store not in STORES:
        raise Refused(f"STORE is none of {', '.join(STORES)}")
    valkey_url, database_url = texts.get("TEST_VALKEY_URL") or None, texts.get("TEST_DATABASE_URL") or None
    if valkey_url:
        refuse_valkey(valkey_url)
    if database_url:
        refuse_database(database_url)
    command = tuple(words(texts["QM_SERVER_CMD"])) if "QM_SERVER_CMD" in texts else None
    if command is not None and not any(command[:1]):
        raise Refused("QM_SERVER_CMD is empty: unset it, or name the server's command")
    must = texts.get("QM_REQUIRE_VALKEY", "").lower() in _ON
    made = RunEnvironment(store, valkey_url, database_url, must, command)
    if store == "valkey" and not made.has_stores:
        raise Refused("STORE=valkey needs TEST_VALKEY_URL and TEST_DATABASE_URL (auto = throw-away stores)")
    return made


def refuse_valkey(url: str) -> None:
    """Raises Refused for an address that means database 0."""
    if url == AUTO:
        return
    parts = urlsplit(url)
    named = parse_qs(parts.query).get("db") or ([] if parts.scheme == "unix" else [parts.path.strip("/")])
    if not all(re.fullmatch("0*[1-9][0-9]*", number) for number in named or [""]):
        raise Refused("TEST_VALKEY_URL means database 0: tests need a database of another number, for example /9")


def refuse_database(url: str) -> None:
    """Raises Refused for an address whose database is not one for tests."""
    if url == AUTO:
        return
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    names = [unquote(parts.path).strip("/"), *query.get("dbname", []), *query.get("database", [])]
    if not all(name.endswith(SUFFIX) for name in filter(None, names)) or not any(names):
        raise Refused(f"TEST_DATABASE_URL names a database that does not end in {SUFFIX}")


def words(text: str) -> list[str]:
    """Words of a command line: split at blanks, ``"…"`` groups; nothing else means anything. Raises Refused."""
    if text.count('"') % 2:
        raise Refused('QM_SERVER_CMD has a " that is not closed')
    return [word.replace('"', "") for word in re.findall(r'(?:[^\s"]|"[^"]*")+', text)]
