"""What gives an automated client away, and what each sign weighs (03, section 18).

Pure: headers and counts in, score out. Not here: the memory behind the counts (services/protection.py), what a score
leads to. A company's or carrier's NAT must never be refused for what its many people do together: all signs of the
address together stay one below the last score that passes, whatever the thresholds are (VIS-199).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple


class Signal(StrEnum):
    """Names as in counters and lists of decisions."""

    DECLARED_AUTOMATION = "declared_automation"
    EMPTY_USER_AGENT = "empty_user_agent"
    MISSING_BROWSER_HEADERS = "missing_browser_headers"
    MISSING_FETCH_METADATA = "missing_fetch_metadata"
    CLIENT_HINT_MISMATCH = "client_hint_mismatch"
    FORGED_FORWARDED = "forged_forwarded"
    COOKIELESS_REPEAT = "cookieless_repeat"
    MACHINE_CADENCE = "machine_cadence"
    ADDRESS_SPREAD = "address_spread"
    JOIN_BURST = "join_burst"
    QUEUE_COOKIE = "queue_cookie"
    CONSISTENT_BROWSER = "consistent_browser"


OF_HEADERS: Final = {
    Signal.EMPTY_USER_AGENT: 40,
    Signal.MISSING_BROWSER_HEADERS: 25,
    Signal.MISSING_FETCH_METADATA: 20,
    Signal.CLIENT_HINT_MISMATCH: 20,
}
OF_ADDRESS: Final = {
    Signal.FORGED_FORWARDED: 15,
    Signal.COOKIELESS_REPEAT: 10,
    Signal.MACHINE_CADENCE: 15,
    Signal.ADDRESS_SPREAD: 15,
    Signal.JOIN_BURST: 10,
}
BONUSES: Final = {Signal.QUEUE_COOKIE: -25, Signal.CONSISTENT_BROWSER: -10}
DECLARED: Final = 80
SCORE_MAX: Final = 100

CADENCE_JOINS: Final = 8
CADENCE_WITHIN_MS: Final = 120_000
SPREAD_TICKETS: Final = 5
SPREAD_LINE: Final = 50
REPEATS: Final = 5
BURST: Final = 30

_AUTOMATION: Final = (
    "python-requests", "python-urllib", "aiohttp", "httpx", "curl/", "wget/", "libwww-perl", "go-http-client", "java/",
    "apache-httpclient", "okhttp", "axios", "node-fetch", "undici", "got (", "ruby", "guzzlehttp", "scrapy",
    "mechanize", "httpie", "postmanruntime", "insomnia", "headlesschrome", "phantomjs", "puppeteer", "playwright",
    "selenium", "webdriver", "electron-fetch", "k6/", "locust", "jmeter", "apachebench", "vegeta", "wrk/",
)  # fmt: skip
CRAWLERS: Final = (
    "Googlebot", "AdsBot-Google", "Google-InspectionTool", "Storebot-Google", "bingbot", "DuckDuckBot", "YandexBot",
    "Baiduspider", "Applebot", "facebookexternalhit", "Twitterbot", "LinkedInBot", "Slackbot", "Discordbot",
    "TelegramBot", "WhatsApp", "Pingdom", "UptimeRobot", "StatusCake", "Site24x7", "DatadogSynthetics",
    "NewRelicPinger", "Prometheus", "kube-probe", "GoogleHC", "ELB-HealthChecker",
)  # fmt: skip
"""Declared crawlers and monitors; the name is believed (VIS-203)."""
_IS_AUTOMATION: Final = re.compile("|".join(map(re.escape, _AUTOMATION)), re.IGNORECASE).search
_CRAWLER: Final = re.compile("|".join(map(re.escape, CRAWLERS)), re.IGNORECASE).search
_CHROME: Final = re.compile(r"\bChrome/(\d{1,4})\.").search
_FIREFOX: Final = re.compile(r"\bFirefox/(\d{1,4})\.").search
_SAFARI: Final = re.compile(r"\bVersion/(\d{1,4})\.\S* .*\bSafari/").search
_BRAND: Final = re.compile(r'"Chromium";\s*v="(\d{1,4})').search
_FETCH_SINCE: Final = ((_CHROME, 80), (_FIREFOX, 90), (_SAFARI, 17))
"""Versions that send ``Sec-Fetch-*`` for certain."""
_HINTS_SINCE: Final = 89
_SHORT: Final = 512
LONGEST: Final = 1024
"""Characters of an agent that are looked at."""


class Look(NamedTuple):
    """What the headers of a request say by themselves."""

    is_declared: bool
    """They name an HTTP library or a scripted browser."""
    crawler: str
    """The declared crawler they name, else ""."""
    signals: tuple[Signal, ...]
    is_consistent: bool
    """Complete headers of a browser that contradict each other nowhere."""


def look_at(headers: dict[bytes, bytes], *, https: bool) -> Look:
    """Read the request headers (by lower-case name). ``https``: by the visitor's scheme."""
    agent, hints = headers.get(b"user-agent", b""), headers.get(b"sec-ch-ua")
    complete = b"accept" in headers and b"accept-language" in headers and b"accept-encoding" in headers
    fetched = b"sec-fetch-site" in headers or b"sec-fetch-mode" in headers or b"sec-fetch-dest" in headers
    short = len(agent) + len(hints or b"") <= _SHORT
    return (_look if short else _look_anew)(agent[:LONGEST], hints, complete, fetched, https)


def _look_anew(raw_agent: bytes, raw_hints: bytes | None, complete: bool, fetched: bool, https: bool) -> Look:
    agent = raw_agent.decode("latin-1").strip()
    hints = None if raw_hints is None else raw_hints[:LONGEST].decode("latin-1")
    found: list[Signal] = []
    if not agent:
        found.append(Signal.EMPTY_USER_AGENT)
    if not complete:
        found.append(Signal.MISSING_BROWSER_HEADERS)
    if https and not fetched and any((got := find(agent)) and int(got[1]) >= since for find, since in _FETCH_SINCE):
        found.append(Signal.MISSING_FETCH_METADATA)
    if https and _contradicts(agent, hints):
        found.append(Signal.CLIENT_HINT_MISMATCH)
    crawler = _CRAWLER(agent)
    is_browser = agent.startswith("Mozilla/5.0 (") and any(find(agent) for find, _ in _FETCH_SINCE)
    return Look(
        is_declared=_IS_AUTOMATION(agent) is not None or (hints is not None and _IS_AUTOMATION(hints) is not None),
        crawler="" if crawler is None else crawler[0],
        signals=tuple(found),
        is_consistent=is_browser and not found,
    )


_look = lru_cache(4096)(_look_anew)
"""Browsers of one build all look alike; made-up headers push each other out."""


def _contradicts(agent: str, hints: str | None) -> bool:
    """Tell whether ``Sec-CH-UA`` is missing beside, or says another version than, a Chromium's User-Agent."""
    chrome = _CHROME(agent)
    if chrome is None or int(chrome[1]) < _HINTS_SINCE or "; wv)" in agent:
        return False  # embedded views of Android send hints or not, by their app
    brand = None if hints is None else _BRAND(hints)
    return brand is None or brand[1] != chrome[1]


def is_machine_cadence(times_ms: Iterable[int], now_ms: int) -> bool:
    """Tell whether the last 8 joins, that of now among them, lie within 2 min with gaps that vary by less than 10 %."""
    last = sorted(times_ms)[-CADENCE_JOINS:]
    if len(last) < CADENCE_JOINS or now_ms - last[0] > CADENCE_WITHIN_MS:
        return False
    gaps = [later - earlier for earlier, later in pairwise(last)]
    return max(gaps) - min(gaps) < max(gaps) / 10


def is_spread(tickets: Sequence[int], last: int, ahead: int) -> bool:
    """Tell whether the tickets of one address lie over half of a line that ends with ``last``, ``ahead`` before it."""
    head = last - ahead
    waiting = [ticket for ticket in tickets if ticket >= head]
    if ahead + 1 < SPREAD_LINE or len(waiting) < SPREAD_TICKETS:
        return False
    return max(waiting) - min(waiting) >= (ahead + 1) / 2


def score_of(look: Look, of_address: Iterable[Signal], *, has_cookie: bool, block_at: int) -> tuple[int, list[Signal]]:
    """Score 0–100 and the signs behind it. ``block_at``: the last score that passes (PROTECTION_BLOCK_AT)."""
    bound = block_at - 1
    address = list(of_address)
    score = min(sum(OF_HEADERS[one] for one in look.signals), bound) + min(
        sum(OF_ADDRESS[one] for one in address), bound
    )
    signals = [*look.signals, *address]
    if look.is_declared:  # no bonus helps (VIS-196)
        return min(SCORE_MAX, score + max(DECLARED, block_at + 1)), [Signal.DECLARED_AUTOMATION, *signals]
    for holds, bonus in ((has_cookie, Signal.QUEUE_COOKIE), (look.is_consistent, Signal.CONSISTENT_BROWSER)):
        if holds:
            score += BONUSES[bonus]
            signals.append(bonus)
    return max(0, min(SCORE_MAX, score)), signals
