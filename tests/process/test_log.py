"""Log lines: form, level, redaction."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from app.core import log as logging_setup
from app.core.runtime import Runtime
from app.core.secret import Secret
from app.core.settings_rules import load
from app.process.start import _log_for_main


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
    assert entry["text"] == "two\\nlines"
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


FORGED = "shop\n2026-11-30T10:00:00.000Z info    auth_ok\x1b[2J\x9b31m\u202e\r\x00" + "x" * 1000


@pytest.mark.req("OBS-193")
@pytest.mark.parametrize("form", ["text", "json"])
def test_nobody_forges_a_line_or_drives_a_terminal(form: str) -> None:
    out = configured(form)
    log = structlog.get_logger("a")

    log.info("refused", room=FORGED, rooms=[FORGED], by={"origin": FORGED}, error=ValueError(FORGED))
    logging.getLogger("some.library").warning("cannot read %s", FORGED)
    try:
        raise ValueError(FORGED)
    except ValueError:
        log.exception("failed")

    text = out.getvalue()
    assert all(c.isprintable() or c == "\n" for c in text)
    lines = text.split("\n")[:-1]
    events = [line for line in lines if form == "json" or not line.startswith("    | ")]
    assert len(events) == 3
    assert not any("auth_ok" in line and line.startswith("2026-11-30T10:00") for line in lines)
    for line in events[:2]:
        assert "x" * 100 in line
        assert "x" * 256 not in line


@pytest.mark.req("OBS-193")
def test_text_of_strangers_is_cut_at_256_characters_wherever_it_stands() -> None:
    out = configured()
    structlog.get_logger("a").info("said", text="ก" * 257, whole="ก" * 256, by={"ก" * 257 + "\n": ["ก" * 300]})

    line = json.loads(out.getvalue())

    cut = "ก" * 256 + "…"
    assert (line["text"], line["whole"], line["by"]) == (cut, "ก" * 256, {cut: [cut]})


def test_a_secret_at_the_cut_is_taken_out_too() -> None:
    out = configured(secrets=[Secret("hunter2hunter2")])
    structlog.get_logger("a").info("said", text="-" * 250 + "hunter2hunter2")
    assert "hunter" not in out.getvalue()


@pytest.mark.req("OBS-184")
def test_a_trace_stays_with_its_event() -> None:
    entries = []
    for form in ("text", "json"):
        out = configured(form)
        try:
            raise ValueError("two\nlines")
        except ValueError:
            structlog.get_logger("a").exception("failed", room="shop")
        entries.append(out.getvalue())

    head, *trace = entries[0].splitlines()
    assert head.endswith(" failed room=shop")
    assert trace
    assert all(line.startswith("    | ") for line in trace)
    (line,) = entries[1].splitlines()
    assert json.loads(line)["exception"].endswith("ValueError: two\nlines")


SECRETS = {
    "SECRET": "s" * 40, "SECRET_PREVIOUS": "t" * 40, "ADMIN_KEY": "a" * 20, "PUBLIC_API_KEY": "p" * 20,
    "EDGE_SECRET": f"{'e' * 20},{'f' * 20}", "VALKEY_URL": "valkeys://u:vvvvvv@10.0.0.1/0", "STORE": "valkey",
    "DATABASE_URL": "postgresql://u:dddddd@10.0.0.2/qm", "SMTP_URL": "smtps://u:mmmmmm@mail.test",
    "ALERT_WEBHOOK_URL": "https://hooks.test/services/T0-wwwwww",
}  # fmt: skip


@pytest.mark.req("CFG-008")
@pytest.mark.parametrize("where", ["main", "others"])
def test_it_writes_no_secret_whoever_hands_it_over(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In a field, in a sentence, in a trace of any library, in the main process and in those it starts."""
    settings = load(SECRETS).settings
    known = [one.reveal() for one in settings.secrets()]
    assert sorted(known) == sorted(",".join(text for name, text in SECRETS.items() if name != "STORE").split(","))
    if where == "main":
        _log_for_main(settings)
    else:
        urls = ("rediss://u:vvvvvv@10.0.0.1/0", "postgresql://u:dddddd@10.0.0.2/qm?sslmode=verify-full")
        logging_setup.configure_for(Runtime(settings, *urls, "i:test", "", 0, 1, is_private=False))  # type: ignore[arg-type]
        known += urls

    for value in known:
        structlog.get_logger().warning("odd", field=value, text=f"with {value} in it", more=[value, {value: value}])
        try:
            raise ValueError(f"no answer from {value}")
        except ValueError:
            logging.getLogger("library").exception("failed %s", value)

    written = capsys.readouterr().err
    assert written.count("[redacted]") > 5 * len(known)
    for value in known:
        assert value not in written
    for part in ("vvvvvv", "dddddd", "mmmmmm", "wwwwww", "s" * 40):
        assert part not in written
