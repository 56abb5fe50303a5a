"""Signs of automated clients and their weights."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from app.domain.bot_signals import (
    CRAWLERS,
    OF_ADDRESS,
    OF_HEADERS,
    Look,
    Signal,
    is_machine_cadence,
    is_spread,
    look_at,
    score_of,
)

CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36"
)
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:126.0) Gecko/20100101 Firefox/126.0"
SAFARI = (
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Safari/605.1"
)
OLD = "Mozilla/5.0 (Windows NT 6.1; rv:52.0) Gecko/20100101 Firefox/52.0"
HINTS = '"Chromium";v="124", "Google Chrome";v="124", "Not-A.Brand";v="99"'
LIBRARIES = (
    "python-requests/2.31.0", "Python-urllib/3.11", "aiohttp/3.9", "python-httpx/0.27", "curl/8.5.0", "Wget/1.21",
    "libwww-perl/6.7", "Go-http-client/2.0", "Java/17.0.2", "Apache-HttpClient/4.5", "okhttp/4.12", "axios/1.6",
    "node-fetch/1.0", "undici", "got (https://github.com/sindresorhus/got)", "Ruby", "GuzzleHttp/7", "Scrapy/2.11",
    "Mechanize/2.8", "HTTPie/3.2", "PostmanRuntime/7.36", "insomnia/8", "PhantomJS/2.1", "Puppeteer", "Playwright/1.4",
    "Selenium", "webdriver", "electron-fetch/1.9", "k6/0.49", "locust", "Apache JMeter", "ApacheBench/2.3", "vegeta",
    "wrk/4.2", CHROME.replace("Chrome/", "HeadlessChrome/"),
)  # fmt: skip


def headers(agent: str | None = CHROME, hints: str | None = HINTS, **changes: str | None) -> dict[bytes, bytes]:
    """Those of a browser on an https page."""
    sent: dict[str, str | None] = {
        "user-agent": agent, "accept": "*/*", "accept-language": "en", "accept-encoding": "gzip",
        "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty", "sec-ch-ua": hints,
        **{name.replace("_", "-"): value for name, value in changes.items()},
    }  # fmt: skip
    return {name.encode(): value.encode() for name, value in sent.items() if value is not None}


def look(agent: str | None = CHROME, hints: str | None = HINTS, *, https: bool = True, **changes: Any) -> Look:
    return look_at(headers(agent, hints, **changes), https=https)


def score(found: Look, *of_address: Signal, has_cookie: bool = False, block_at: int = 70) -> int:
    return score_of(found, of_address, has_cookie=has_cookie, block_at=block_at)[0]


NO_FETCH = {"sec_fetch_site": None, "sec_fetch_mode": None, "sec_fetch_dest": None}


@pytest.mark.req("VIS-197", "VIS-201")
@pytest.mark.parametrize(
    ("found", "signals", "points"),
    [
        (look(), (), 0),
        (look(FIREFOX, None), (), 0),
        (look(SAFARI, None), (), 0),
        (look(OLD, None, **NO_FETCH), (), 0),
        (look(CHROME, None, https=False, **NO_FETCH), (), 0),
        (look("", None), (Signal.EMPTY_USER_AGENT,), 40),
        (look(None, None), (Signal.EMPTY_USER_AGENT,), 40),
        (look("  ", None), (Signal.EMPTY_USER_AGENT,), 40),
        (look(accept=None), (Signal.MISSING_BROWSER_HEADERS,), 25),
        (look(accept_language=None), (Signal.MISSING_BROWSER_HEADERS,), 25),
        (look(accept_encoding=None), (Signal.MISSING_BROWSER_HEADERS,), 25),
        (look(**NO_FETCH), (Signal.MISSING_FETCH_METADATA,), 20),
        (look(FIREFOX, None, **NO_FETCH), (Signal.MISSING_FETCH_METADATA,), 20),
        (look(SAFARI, None, **NO_FETCH), (Signal.MISSING_FETCH_METADATA,), 20),
        (look(CHROME, None), (Signal.CLIENT_HINT_MISMATCH,), 20),
        (look(CHROME, HINTS.replace("124", "99")), (Signal.CLIENT_HINT_MISMATCH,), 20),
        (look(CHROME, '"Firefox";v="124"'), (Signal.CLIENT_HINT_MISMATCH,), 20),
        (look(CHROME.replace("X11", "; wv)").replace("x64)", "x64; wv)"), None), (), 0),
        (look("SomethingElse/1.0", None), (), 0),
        (look("", None, accept=None), (Signal.EMPTY_USER_AGENT, Signal.MISSING_BROWSER_HEADERS), 65),
        (look(CHROME, None, accept=None, **NO_FETCH),
         (Signal.MISSING_BROWSER_HEADERS, Signal.MISSING_FETCH_METADATA, Signal.CLIENT_HINT_MISMATCH), 65),
    ],
)  # fmt: skip
def test_it_reads_the_headers_of_a_client(found: Look, signals: tuple[Signal, ...], points: int) -> None:
    assert (found.signals, found.is_declared, found.crawler) == (signals, False, "")
    assert sum(OF_HEADERS[one] for one in signals) == points
    assert score(found) == points


@pytest.mark.req("VIS-201")
def test_it_thinks_better_of_a_whole_browser_with_a_cookie() -> None:
    assert [found.is_consistent for found in (look(), look(FIREFOX, None), look(SAFARI, None))] == [True] * 3
    for other in (look(accept=None), look("curl/8", None), look("SomethingElse/1.0", None), look("", None)):
        assert not other.is_consistent
    burst = (Signal.JOIN_BURST, Signal.MACHINE_CADENCE, Signal.ADDRESS_SPREAD)
    assert (score(look("x", None), *burst), score(look(), *burst)) == (40, 30)
    assert (score(look("x", None), *burst, has_cookie=True), score(look(), *burst, has_cookie=True)) == (15, 5)
    assert score(look(), has_cookie=True) == 0, "never below 0"


@pytest.mark.req("VIS-196")
@pytest.mark.parametrize("agent", LIBRARIES)
def test_it_knows_every_library_and_scripted_browser_by_name(agent: str) -> None:
    for spelled in (agent, agent.upper(), f"Mozilla/5.0 (compatible; {agent})"):
        found = look(spelled, None, https=False)
        assert found.is_declared, spelled
        assert 71 <= score(found) <= 100
        assert score(found, has_cookie=True) == score(found), "no bonus helps"
        for block_at in (1, 50, 79, 80, 90, 99):
            assert score(found, has_cookie=True, block_at=block_at) > block_at
        assert score(found, block_at=100) == 100, "100 refuses nobody"
    assert look(CHROME, f'"{agent}";v="1"').is_declared, "named by the client hint"


@pytest.mark.req("VIS-203")
@pytest.mark.parametrize("name", CRAWLERS)
def test_it_reports_a_declared_crawler_and_no_library_that_calls_itself_one(name: str) -> None:
    for agent in (f"Mozilla/5.0 (compatible; {name}/2.1; +http://example.com/bot)", name.lower()):
        found = look(agent, None)
        assert (found.crawler.lower(), found.is_declared) == (name.lower(), False)
    assert look(f"python-requests/2.31 {name}", None).is_declared


@pytest.mark.req("VIS-199", "VIS-200")
@pytest.mark.parametrize("block_at", [1, 2, 20, 40, 65, 66, 70, 99, 100])
def test_no_address_and_no_headers_by_themselves_reach_the_threshold(block_at: int) -> None:
    nobody = look("SomethingElse/1.0", None)
    worst = [look("", None, accept=None), look(CHROME, None, accept=None, **NO_FETCH)]

    for number in range(len(OF_ADDRESS) + 1):
        for some in itertools.combinations(OF_ADDRESS, number):
            assert score(nobody, *some, block_at=block_at) <= block_at - 1
    for found in worst:
        assert score(found, block_at=block_at) <= block_at - 1
    assert score(nobody, *OF_ADDRESS) == 65
    assert score(worst[0], *OF_ADDRESS) == 100, "both kinds together may"


@pytest.mark.req("VIS-198")
@pytest.mark.parametrize(
    ("gaps", "fires"),
    [([1000] * 7, True), ([1000, 1050, 990, 1010, 1000, 1020, 1040], True), ([1000] * 6, False), ([17_000] * 7, True),
     ([17_200] * 7, False), ([1000] * 6 + [1200], False), ([5000] * 3 + [1000] * 7, True),
     ([900, 4000, 300, 8000, 1000, 200, 7000], False), ([0] * 7, False)],
)  # fmt: skip
def test_it_hears_the_beat_of_a_machine(gaps: list[int], fires: bool) -> None:
    times = list(itertools.accumulate(gaps, initial=1_000_000))

    assert is_machine_cadence(reversed(times), times[-1]) is fires


@pytest.mark.req("VIS-198")
@pytest.mark.parametrize(
    ("tickets", "last", "ahead", "fires"),
    [([1, 10, 20, 25, 30], 50, 49, True), ([1, 10, 20, 24, 25], 50, 49, False), ([1, 10, 20, 30], 50, 49, False),
     ([1, 10, 20, 25, 30], 49, 48, False), ([1, 110, 120, 130, 140], 150, 49, False),
     ([101, 110, 120, 130, 140], 150, 49, True), ([], 0, 0, False)],
)  # fmt: skip
def test_it_sees_one_address_all_over_the_line(tickets: list[int], last: int, ahead: int, fires: bool) -> None:
    assert is_spread(tickets, last, ahead) is fires


@pytest.mark.req("VIS-197")
def test_it_looks_at_long_and_strange_bytes_without_failing() -> None:
    for agent in (b"\xff\xfe\x00" * 3000, b"Chrome/" * 5000, b"Chrome/99999999999.", "Chrome/१२४.".encode()):
        found = look_at({b"user-agent": agent, b"sec-ch-ua": agent}, https=True)
        assert 0 <= score(found) <= 100
    assert not look("x" * 2000 + "curl/8", None).is_declared
