"""The page over HTTP, its files, and what stands in the sources."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from blueprints.admin.console import console_site
from tests.console.conftest import ROOT, Stub

CONSOLE = ROOT / "static/console"
SOURCES = sorted(CONSOLE.glob("*.js"))
DYNAMIC = {
    "f.": ["id", "name", "targetUrl", "rate", "maxConcurrent", "passedTtlSec", "sessionTtlSec", "sessionMaxSec",
           "presenceSec", "queueMaxPerIp", "preQueueMaxPerIp", "sessionMaxPerIp", "opensAt", "autoActivate.enabled",
           "autoActivate.joinsPerMin", "autoActivate.sustainSec", "autoActivate.releaseAfterSec", "autotune.enabled",
           "autotune.minRate", "autotune.maxRate", "autotune.targetMs", "rules", "returnOrigins", "tagOrigins",
           "protection.mode", "proxyOrigin", "onBackendDown"],
    "section.": ["site", "pace", "clocks", "fairness", "doors", "threshold", "autotune", "targeting", "origins",
                 "protection"],
    "theme.": ["system", "light", "dark"],
    "done.": ["active", "paused", "bypass"],
    "unit.": ["onsite", "places", "slots"],
    "steps.": ["tag", "page", "key", "monitor", "hook", "diagnostics"],
}  # fmt: skip
"""Beginnings of keys that the sources complete, and what follows."""


def ask(stub: Stub, path: str, method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    link = http.client.HTTPConnection(urlsplit(stub.url).netloc, timeout=10)
    link.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = link.getresponse()
    body = answer.read()
    link.close()
    return answer, body


@pytest.mark.req("CON-004", "CON-003")
@pytest.mark.parametrize("path", ["/", "/public/admin.html"])
@pytest.mark.req("CON-001", "CON-252")
def test_it_sends_the_page_with_a_strict_policy(stub: Stub, path: str) -> None:
    answer, body = ask(stub, path)

    policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
    assert answer.status == 200
    assert policy["default-src"] == "'none'"
    assert re.fullmatch(r"'self' 'sha256-[\w+/]+='", policy["script-src"])
    assert [policy[name] for name in ("style-src", "font-src", "img-src", "connect-src", "form-action")] == [
        "'self'"
    ] * 5
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert (policy["require-trusted-types-for"], policy["trusted-types"]) == ("'script'", "'none'")
    names = ("Referrer-Policy", "X-Content-Type-Options", "X-Robots-Tag", "Cross-Origin-Opener-Policy")
    assert [answer.headers[name] for name in names] == ["no-referrer", "nosniff", "noindex", "same-origin"]
    assert body == ask(stub, "/")[1]


@pytest.mark.req("CON-006")
def test_it_sends_a_small_compressed_page_with_a_tag(stub: Stub) -> None:
    plain, body = ask(stub, "/")
    packed, squeezed = ask(stub, "/", Accept_Encoding="gzip")
    again, nothing = ask(stub, "/", If_None_Match=plain.headers["ETag"])
    files = re.findall(rb'(?:src|href)="(/assets/[^"]+)"|"(/assets/[^"]+\.mjs)"', body)
    modules = [path.relative_to(ROOT / "static").as_posix() for path in SOURCES]
    base = re.search(rb"(/assets/console/\w+)/", body)
    assert base is not None
    paths = {one or two for one, two in files} | {base[1] + b"/" + name.encode() for name in modules}
    size = len(body) + sum(len(ask(stub, path.decode())[1]) for path in paths)

    assert plain.headers["Cache-Control"] == "private, no-cache"
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(squeezed) == body
    assert (again.status, nothing) == (304, b"")
    assert size < 600 * 1024
    assert console_site() is console_site(), "read and compressed once"


@pytest.mark.req("CON-008")
def test_it_answers_head_like_get_without_a_body(stub: Stub) -> None:
    get, body = ask(stub, "/")
    head, nothing = ask(stub, "/", "HEAD")

    assert (head.status, nothing) == (200, b"")
    assert head.headers["Content-Length"] == str(len(body)) == get.headers["Content-Length"]
    assert head.headers["ETag"] == get.headers["ETag"]


def test_it_serves_modules_for_ever_under_this_builds_digest_only(stub: Stub) -> None:
    base = re.search(rb"(/assets/console/\w+)/console/main\.js", ask(stub, "/")[1])
    assert base is not None
    address = base[1].decode()
    answer, body = ask(stub, address + "/console/main.js")

    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert answer.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert body == (CONSOLE / "main.js").read_bytes()
    for path in (
        "/assets/console/0000000000000000/console/main.js",
        address + "/console/../../../pyproject.toml",
        address + "/console/console.html",
    ):
        assert ask(stub, path)[0].status == 404


def test_it_refuses_page_loads_over_the_budget(stub: Stub) -> None:
    stub.set(page_limit=120)
    page, body = ask(stub, "/", Accept="text/html", Sec_Fetch_Mode="navigate")
    call, words = ask(stub, "/", Accept="*/*")

    assert (page.status, call.status) == (429, 429)
    assert page.headers["Retry-After"] == "7"
    assert page.headers["X-RateLimit-Limit"] == "120"
    assert b'http-equiv="refresh" content="7"' in body
    assert len(body) <= 1024
    assert call.headers["Content-Type"].startswith("text/plain")
    assert b"<" not in words


def test_it_vendors_published_builds_byte_for_byte() -> None:
    readme = (ROOT / "static/vendor/README.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `([\w.-]+)` \|.*`([0-9a-f]{64})` \|$", readme, re.MULTILINE))

    files = [path for path in (ROOT / "static/vendor").iterdir() if path.suffix in (".mjs", ".js", ".css")]
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    assert found == rows
    for licence in re.findall(r"LICENSE\.\w+\.txt", readme):
        assert (ROOT / "static/vendor" / licence).stat().st_size > 500


@pytest.mark.req("CON-003")
def test_it_names_no_other_origin_in_its_sources() -> None:
    for path in CONSOLE.iterdir():
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert re.findall(r"https?://[\w.-]+\.\w+|//cdn", text) == [], path.name


@pytest.mark.req("CON-252")
def test_it_uses_no_style_attribute_and_no_markup_from_text() -> None:
    for path in [*SOURCES, CONSOLE / "console.html"]:
        assert re.findall(r'innerHTML|insertAdjacentHTML|\bstyle="|eval\(|\son\w+="', path.read_text("utf-8")) == [], (
            path.name
        )


def used_keys() -> set[str]:
    """Keys that the sources ask for, literally or by one of the known beginnings."""
    text = "\n".join(path.read_text("utf-8") for path in SOURCES)
    keys = set(re.findall(r'(?:\bt|\brich|\bwrong)\(\s*"([^"]+)"', text))
    keys |= {key for pair in re.findall(r'\? "([\w.]+)" : "([\w.]+)"', text) for key in pair if key in words("en")}
    keys |= {key for key in re.findall(r'"([\w.]+)"', text) if key in words("en") and "." in key}
    for beginning in set(re.findall(r"\bt\(`([\w.]+)\$\{", text)):
        keys |= {beginning + end for end in DYNAMIC[beginning]}
    keys |= {f"f.{name}.help" for name in DYNAMIC["f."]}
    return keys


def words(language: str) -> dict[str, str]:
    table: dict[str, str] = json.loads((ROOT / f"locales/console.{language}.json").read_text("utf-8"))
    return table


@pytest.mark.req("CON-238")
def test_it_has_every_text_in_both_languages_and_none_too_many() -> None:
    english, thai = words("en"), words("th")

    assert english.keys() == thai.keys() == used_keys()
    for key, text in english.items():
        assert sorted(re.findall(r"\{\w+\}", text)) == sorted(re.findall(r"\{\w+\}", thai[key])), key


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: Path(path).name)
def test_it_keeps_modules_small(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= 300
