"""The page's files: weight, texts, hashes, the ways they are served."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import urllib.error
import urllib.request
from email.message import Message
from pathlib import Path

import pytest

from app.core.i18n import FALLBACK, LANGUAGES, base_keys, choose_language, load_locale
from app.core.ids import EpochMs, Generation, RoomId
from app.domain.room import Room, RoomConfig
from app.services.assets import FONTS, STATIC_DIR, WAITING_MODULES, Assets, join_modules, squeeze
from app.services.small_pages import SmallPage, SmallPages
from app.services.waiting_page import WaitingPage
from tests.pages.conftest import Stub
from tests.pages.stub import room

WAITING = STATIC_DIR / "waiting"


def fetch(url: str, **headers: str) -> tuple[int, Message, bytes]:
    """Status, headers and undecoded body of a GET, whatever the status."""
    request = urllib.request.Request(url, headers={name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def head(url: str) -> tuple[int, Message, bytes]:
    with urllib.request.urlopen(urllib.request.Request(url, method="HEAD")) as answer:
        return answer.status, answer.headers, answer.read()


def sources() -> list[Path]:
    return [path for part in ("waiting", "shared") for path in (STATIC_DIR / part).iterdir()]


@pytest.mark.req("PAG-098")
def test_it_weighs_at_most_16_kb_gzipped_on_the_first_view() -> None:
    files = Assets()
    page = WaitingPage(assets=files, offers_mail=True).render(room("shop"))
    parts = [files.get(url.removeprefix("/assets/")) for url in (files.css, files.js)]

    weight = len(page.gzipped) + sum(len(part.gzipped or part.body) for part in parts if part)

    assert weight <= 16 * 1024
    assert len(page.body) <= 60 * 1024
    assert len(page.body) + sum(len(part.body) for part in parts if part) <= 141 * 1024


@pytest.mark.req("PAG-144")
def test_it_has_the_same_keys_in_every_language() -> None:
    for namespace in ("waiting", "pages", "plain"):
        english, *others = (base_keys(load_locale(namespace, lang)) for lang in LANGUAGES)
        assert all(other == english for other in others)


def test_it_has_the_same_places_in_every_language() -> None:
    for namespace in ("waiting", "pages", "plain"):
        english, *others = (load_locale(namespace, lang) for lang in LANGUAGES)
        for texts in others:
            for key, text in texts.items():
                assert sorted(re.findall(r"{\w+}", text)) == sorted(re.findall(r"{\w+}", english[key])), key


def test_it_uses_every_text() -> None:
    code = "".join((STATIC_DIR / name).read_text() for name in WAITING_MODULES)
    code += "".join((WAITING / name).read_text() for name in ("waiting.html", "mail.html"))
    words = set(re.findall(r"\w+", code))
    # Keys that are put together: a state and its explanation, the trouble's name, a refusal's name.
    made = {f"{key}Why" for key in re.findall(r"(?:ended|refused)\('(\w+)'\)", code)} | {"lostWhy", "offlineWhy"}

    unused = base_keys(load_locale("waiting", "en")) - words - made

    assert unused == set()


PAUSED = {"en": "paused", "th": "พัก", "ja": "一時停止", "zh-Hans": "暂停", "ko": "일시 중지"}


@pytest.mark.req("PAG-112")
def test_it_calls_a_pause_nothing_but_the_organiser_s() -> None:
    for lang, word in PAUSED.items():
        texts = load_locale("waiting", lang)
        assert {key for key, text in texts.items() if word in text.lower()} == {"paused", "docPaused"}, lang
        for namespace in ("plain", "pages", "outage"):
            assert not [text for text in load_locale(namespace, lang).values() if word in text.lower()], lang


def test_it_names_no_other_origin() -> None:
    for path in sources():
        urls = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"')]*", path.read_text(encoding="utf-8"))
        assert [url for url in urls if not url.endswith("www.w3.org/2000/svg")] == [], path.name


def test_it_writes_no_data_as_markup() -> None:
    for path in sources():
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|\son\w+=", path.read_text()
        )


def test_it_joins_modules_without_touching_literals() -> None:
    source = (
        "import { x } from './x.js';\n\n// why\n"
        "export const a = `b  =  ${ x }`;\nconst b = /^= /.test('c , d') ? 1 : 2;\n"
    )

    assert "const a=`b  =  ${ x }`;const b=/^= /.test('c , d')?1:2;" in join_modules([source]).replace("\n", "")
    assert squeeze("a = b\nc = d") == "a=b\nc=d"


def test_it_refuses_two_modules_that_declare_one_name() -> None:
    with pytest.raises(ValueError, match="room"):
        join_modules(["export const room = 1;\n", "const room = 2;\n"])


@pytest.mark.req("PAG-169")
def test_it_gives_the_same_bytes_and_hashes_every_time() -> None:
    one, other = Assets(), Assets()

    assert (one.css, one.js, one.languages) == (other.css, other.js, other.languages)
    assert one.get(one.js.removeprefix("/assets/")) == other.get(other.js.removeprefix("/assets/"))


def test_it_chooses_the_language_of_the_browser() -> None:
    assert choose_language("th-TH,th;q=0.9,en;q=0.8") == "th"
    assert choose_language("en;q=0.5, th;q=0.7") == "th"
    assert choose_language("de, *;q=0.5") == "en"
    assert [choose_language(tag) for tag in ("ja-JP", "ko", "zh", "zh-TW", "zh-Hant-HK;q=0.9,en;q=0.8")] == [
        "ja", "ko", "zh-Hans", "zh-Hans", "zh-Hans",
    ]  # fmt: skip
    assert choose_language("th;q=0") == "en"
    assert choose_language("\0;;;,,q=x" * 1000) == "en"


# ---- served --------------------------------------------------------------------------------------------------------


@pytest.mark.req("PAG-165", "VIS-105", "FLT-135")
@pytest.mark.req("PAG-164")
def test_it_serves_hashed_files_for_ever(stub: Stub) -> None:
    page = fetch(f"{stub.url}/w/shop")[2].decode()
    types = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
    files = re.findall(r'"(/assets/waiting-[\w-]{22}\.(css|js))"', page)
    assert [kind for _, kind in files] == ["css", "js"]

    for path, kind in files:
        status, headers, body = fetch(stub.url + path)
        digest = base64.urlsafe_b64encode(hashlib.sha256(body).digest()).decode()[:22]
        assert (status, headers["cache-control"]) == (200, "public, max-age=31536000, immutable")
        assert headers["content-type"] == types[kind]
        assert f"waiting-{digest}." in path
        assert body.decode() not in page
        _, packed_headers, packed = fetch(stub.url + path, accept_encoding="gzip")
        assert packed_headers["content-encoding"] == "gzip"
        assert packed_headers["vary"] == "Accept-Encoding"
        assert gzip.decompress(packed) == body


@pytest.mark.req("VIS-108", "PAG-187", "PAG-188", "PAG-190", "PAG-191", "PAG-192")
@pytest.mark.req("PAG-185")
def test_it_serves_the_fonts_as_they_are(stub: Stub) -> None:
    for name in ("geist-latin", "geist-latin-ext", "geist-mono-latin", "geist-mono-latin-ext"):
        status, headers, body = fetch(f"{stub.url}/fonts/{name}.woff2", accept_encoding="gzip")
        assert status == 200
        assert body[:4] == b"wOF2"
        assert len(body) == (STATIC_DIR / f"fonts/{name}.woff2").stat().st_size == int(headers["content-length"])
        assert headers["content-type"] == "font/woff2"
        assert headers["cache-control"] == "public, max-age=604800"
        assert "content-encoding" not in headers

    assert sum((STATIC_DIR / "fonts" / name).stat().st_size for name in FONTS) == pytest.approx(82_000, rel=0.1)
    assert b"SIL Open Font License, Version 1.1" in fetch(f"{stub.url}/fonts/LICENSE.txt")[2]
    for other in ("geist.woff2", "..%2ffonts.css", "%2e%2e/shared/fonts.css"):
        assert fetch(f"{stub.url}/fonts/{other}")[0] == 404


@pytest.mark.req("VIS-089", "VIS-090", "PAG-096", "PAG-097")
@pytest.mark.req("PAG-094", "PAG-095")
def test_it_sends_one_page_to_everybody_and_304_to_who_has_it(stub: Stub) -> None:
    status, headers, body = fetch(
        f"{stub.url}/w/shop?qm_return=https%3A%2F%2Fshop.example%2F1", cookie="qm_shop=secret"
    )
    _, packed_headers, packed = fetch(f"{stub.url}/w/shop", accept_encoding="br, gzip")

    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert headers["cache-control"] == "private, no-cache"
    assert headers["vary"] == "Accept-Encoding"
    assert "content-encoding" not in headers
    assert packed_headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed) == body
    assert b"secret" not in body
    assert b"shop.example" not in body
    for tag in (headers["etag"], "*", f'"x", {headers["etag"]}'):
        again, again_headers, nothing = fetch(f"{stub.url}/w/shop", if_none_match=tag)
        assert (again, nothing, again_headers["etag"]) == (304, b"", headers["etag"])


@pytest.mark.req("VIS-090")
@pytest.mark.req("PAG-095")
def test_it_changes_the_tag_with_the_name_of_the_room() -> None:
    page = WaitingPage(assets=Assets())
    shop = room("shop")

    assert page.render(shop) is page.render(shop), "made once for this copy of the room"
    assert page.render(shop).etag != page.render(room("evil")).etag


@pytest.mark.req("PAG-106")
def test_it_shows_a_name_that_looks_like_markup_as_text(stub: Stub) -> None:
    body = fetch(f"{stub.url}/w/evil")[2].decode()

    assert "<title>&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;</title>" in body
    assert "<script>alert" not in body


@pytest.mark.req("PAG-105")
def test_it_allows_nothing_from_elsewhere_but_frames_of_the_room_s_own_sites(stub: Stub) -> None:
    headers = fetch(f"{stub.url}/w/shop")[1]
    policy = headers["content-security-policy"]

    assert re.sub("sha256-[^']+", "sha256-x", policy).startswith(
        "default-src 'none'; script-src 'self' 'sha256-x'; style-src 'self'; font-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors "
    )
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "same-origin")
    assert (headers["x-robots-tag"], headers["x-frame-options"]) == ("noindex", None)
    guest = RoomConfig(
        RoomId("g"),
        "G",
        "https://a.example/x",
        return_origins=("https://b.example",),
        tag_origins=("https://*.c.example",),
    )
    made = WaitingPage(assets=Assets()).render(Room(guest, Generation(1), bytes(16), 1, EpochMs(0), EpochMs(0)))
    assert made.csp.endswith("frame-ancestors 'self' https://a.example https://b.example https://*.c.example")
    assert policy.endswith("frame-ancestors 'self' http://127.0.0.1")


def test_it_answers_head_with_the_length_and_no_body(stub: Stub) -> None:
    for path in ("/w/shop", "/fonts/geist-latin.woff2", "/robots.txt"):
        _, full, body = fetch(stub.url + path)
        status, headers, nothing = head(stub.url + path)
        assert (status, nothing) == (200, b"")
        assert headers["content-length"] == full["content-length"] == str(len(body))


@pytest.mark.req("PAG-183")
def test_it_keeps_robots_out_and_has_no_favicon(stub: Stub) -> None:
    assert fetch(f"{stub.url}/robots.txt")[2] == b"User-agent: *\nDisallow: /\n"
    assert fetch(f"{stub.url}/favicon.ico")[0] == 204


@pytest.mark.req("PAG-099")
def test_it_sends_a_small_page_for_a_room_that_does_not_exist(stub: Stub) -> None:
    for name in ("nope", "bad%20id", "x" * 65):
        status, headers, body = fetch(f"{stub.url}/w/{name}", accept="text/html", accept_language="th")
        assert (status, headers["cache-control"]) == (404, "no-store")
        assert "ไม่พบห้องรอนี้" in body.decode()
        assert len(body) <= 2048


@pytest.mark.req("VIS-079", "VIS-070")
def test_it_limits_page_views_without_touching_the_line(stub: Stub) -> None:
    for path in ("/w/shop", "/w/nope"):
        _, headers, _ = fetch(stub.url + path, accept="text/html")
        assert (headers["x-ratelimit-limit"], headers["x-ratelimit-reset"]) == ("120", "12")
    stub.say(used=120)

    status, headers, body = fetch(f"{stub.url}/w/shop", accept="text/html")
    plain_status, plain_headers, plain = fetch(f"{stub.url}/w/shop", accept="*/*")

    assert (status, headers["retry-after"], headers["x-ratelimit-remaining"]) == (429, "12", "0")
    assert len(body) <= 1024
    assert b'http-equiv="refresh" content="12"' in body
    assert (plain_status, plain_headers.get_content_type()) == (429, "text/plain")
    assert plain == b"Too many requests. Try again in 12 s."
    assert stub.calls("/api") == []


def test_it_keeps_every_small_page_small() -> None:
    pages = SmallPages()

    for lang in LANGUAGES:
        for kind in SmallPage:
            bound = 1024 if kind in (SmallPage.RATE_LIMITED, SmallPage.PAGES_LIMITED) else 2048
            assert len(pages.page(kind, lang, retry_after_sec=60).body) <= bound


def test_it_hands_out_each_other_language_as_one_file(stub: Stub) -> None:
    body = fetch(f"{stub.url}/w/shop")[2].decode()
    urls = dict(re.findall(r'<option value="([\w-]+)" lang="[\w-]+" data-words="([^"]+)"', body))
    assert [FALLBACK, *urls] == list(LANGUAGES)

    for lang, url in urls.items():
        assert json.loads(fetch(stub.url + url)[2]) == load_locale("waiting", lang)


@pytest.mark.req("PAG-208")
def test_it_registers_no_service_worker() -> None:
    for path in STATIC_DIR.rglob("*.js"):
        assert not re.search(r"serviceWorker\W+register|\.register\(", path.read_text(encoding="utf-8")), path.name
