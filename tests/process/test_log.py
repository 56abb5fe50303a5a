"""Log lines: form, level, redaction."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from app.core import log as logging_setup
from app.core.secret import Secret


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def configured(form: str = "json", level: str = "info", secrets: list[Secret | None] | None = None) -> io.StringIO:
    out = io.StringIO()
    logging_setup.configure(level=level, form=form, instance="i:test", secrets=secrets or [], stream=out)
    return out


@pytest.mark.req("CFG-028")
def test_it_writes_one_object_per_line() -> None:
    out = configured()

    structlog.get_logger("a").info("room_created", room="shop", request_id="r1", text="two\nlines")

    (line,) = out.getvalue().splitlines()
    entry = json.loads(line)
    assert list(entry)[:5] == ["ts", "level", "instance", "msg", "requestId"]
    assert (entry["level"], entry["instance"], entry["msg"], entry["requestId"]) == (
        "info",
        "i:test",
        "room_created",
        "r1",
    )
    assert entry["ts"].endswith("Z")
    assert entry["room"] == "shop"

    text = configured("text")
    structlog.get_logger("a").warning("slow", room="a\nb\x1b[0m", ms=3)
    assert text.getvalue().endswith("warning slow room=a\\nb\\x1b[0m ms=3\n")


@pytest.mark.parametrize(("level", "written"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_it_leaves_lesser_lines_out(level: str, written: int) -> None:
    out = configured(level=level)
    log = structlog.get_logger("a")

    for method in ("debug", "info", "warning", "error"):
        getattr(log, method)("said")

    assert len(out.getvalue().splitlines()) == written


def test_it_takes_secrets_out_by_type_by_name_and_by_value() -> None:
    out = configured(secrets=[Secret("hunter2hunter2"), None])
    log = structlog.get_logger("a")

    log.info("said", given=Secret("abc123"), admin_key="abc123", cookie="abc123", token="abc123", ticket=7)
    try:
        raise ValueError("cannot connect to redis://:hunter2hunter2@host")
    except ValueError:
        log.exception("failed")

    text = out.getvalue()
    assert "abc123" not in text
    assert "hunter2hunter2" not in text
    assert '"ticket": 7' in text
    assert "cannot connect to redis://:[redacted]@host" in text


def test_it_carries_lines_of_libraries() -> None:
    out = configured()

    logging.getLogger("some.library").warning("it is %s", "late")
    logging.getLogger("sanic.root").info("Goin' Fast")

    (line,) = out.getvalue().splitlines()
    assert json.loads(line)["msg"] == "it is late"
    assert json.loads(line)["logger"] == "some.library"
