"""The chart below the cards: what it draws, which scale a line has, its marks, its table and its file."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console.conftest import Stub, card, sign_in, wait_for
from tests.console.measured import FIGURES, POINTS, STEP_MS

pytestmark = pytest.mark.browser

LINE, JOINS, PASSES = (43, 92, 217), (192, 116, 0), (0, 122, 94)
JOINS_TEXT = (135, 82, 0)

HAS_COLOUR = """(canvas, [colour, from, to]) => {
  const [left, wide] = [Math.floor(canvas.width * from), Math.ceil(canvas.width * (to - from))];
  const { data } = canvas.getContext("2d").getImageData(left, 0, wide, canvas.height);
  for (let at = 0; at < data.length; at += 4)
    if (data[at + 3] > 200 && colour.every((part, place) => Math.abs(part - data[at + place]) < 24)) return true;
  return false;
}"""
"""Whether a canvas has a colour between two shares of its width."""


def history(now: int | None = None, gap: range = range(0), **values: Any) -> list[dict[str, Any]]:
    """An hour of samples; a value is a number, or a function of the sample's place."""
    last = (now or int(time.time() * 1000)) // STEP_MS * STEP_MS
    figures = {**dict.fromkeys(FIGURES, 0), **values}
    return [
        {"ts": last - (POINTS - 1 - place) * STEP_MS}
        | {name: value(place) if callable(value) else value for name, value in figures.items()}
        for place in range(POINTS)
        if place not in gap
    ]


def chart_of(page: Page) -> Locator:
    """The chart, with figures."""
    region = page.get_by_role("region", name="Chart")
    expect(region.locator("canvas").first).to_be_visible()
    return region


def entry(region: Locator, name: str) -> Locator:
    """Series of the legend."""
    return region.get_by_role("group", name="Series of the chart").get_by_role("button", name=name)


def has(region: Locator, colour: tuple[int, int, int], start: float, end: float) -> bool:
    """Whether the upper pane has this colour between two shares of its width."""
    found: bool = region.locator("canvas").first.evaluate(HAS_COLOUR, [list(colour), start, end])
    return found


@pytest.fixture
def data(open_page: Callable[..., Page]) -> Callable[..., Any]:
    """Evaluates an expression with ``d``, the module of the chart's data, and ``values``."""
    page = open_page()
    base = re.search(r"/assets/console/\w+", page.content())
    assert base
    module = f"import('{base[0]}/console/chart_data.js')"
    return lambda expression, *values: page.evaluate(f"(values) => {module}.then((d) => ({expression}))", list(values))


@pytest.mark.req("CON-119", "CON-122", "CON-124")
def test_its_data_has_gaps_scales_and_merged_marks(data: Callable[..., Any]) -> None:
    own = "d.needOwnScales(values[0], values[1])"
    assert data(own, [0, 401, None], [100, 3]) is True
    assert data(own, [3, 100], [401]) is True
    assert data(own, [400], [None, 100, 2]) is False, "at 4 one scale"
    assert data(own, [1000, 1000], [0, None]) is False, "0 throughout"
    assert data(own, [None], [None]) is False

    columns = "d.columnsOf(d.byTurn(values[0]), values[1], 5000)"
    found = data(columns, [{"ts": 3_595_000, "waiting": 7}, {"ts": 3_605_000, "waiting": 0}], 3_607_000)
    assert [len(found[name]) for name in ("ts", "waiting", "waitP90Sec")] == [720, 720, 720]
    assert (found["ts"][0], found["ts"][-4:]) == (10_000, [3_590_000, 3_595_000, 3_600_000, 3_605_000])
    assert found["waiting"][-4:] == [None, 7, None, 0], "a gap, and a real zero"
    marks = [{"ts": ts} for ts in (3000, 1000, 2004, 1996, 9999)]
    merged = data("d.mergedMarks(values[0], 1000, 5000, 100)", marks)
    assert merged == [
        {"x": 0, "marks": [{"ts": 1000}]}, {"x": 25, "marks": [{"ts": 1996}, {"ts": 2004}]},
        {"x": 50, "marks": [{"ts": 3000}]},
    ]  # fmt: skip
    ends = "(() => { const s = d.countScale(); return values.map(([most, at]) => s.fit([[most, null]], at)); })()"
    steps = [[0, 0], [3, 1], [4, 2], [16, 3], [2, 4], [2, 60_003], [2, 60_004], [2, 60_005]]
    assert data(ends, *steps) == [3, 3, 6, 30, 30, 30, 3, 3], "down only after a minute"
    assert data("values.map((v) => d.waitScale().fit([[v]], 0))", 0, 21, 4980, 400_000) == [20, 40, 7200, 720_000]
    ticks = data("[d.ticksOf(0, 3600000, 600, 19800000), d.ticksOf(60000, 3660000, 200, 0)]")
    assert ticks == [[m * 600_000 for m in range(7)], [1_800_000, 3_600_000]]


@pytest.mark.req("CON-098", "CON-115", "CON-116", "CON-129", "CON-122")
def test_it_shows_the_last_hour_of_the_chosen_room(signed_in: Callable[..., Page], stub: Stub) -> None:
    gap = range(240, 480)
    stub.set(histories={"shop": history(gap=gap, waiting=30, joinsPerMin=60, passesPerMin=50, estWaitSec=40,
                                        waitP50Sec=1700, waitP90Sec=2400)})  # fmt: skip
    stub.room("shop", waitP50Sec=1700, waitP90Sec=2400)
    page = signed_in()
    region = chart_of(page)

    select = region.get_by_label("Room of the chart")
    expect(select).to_have_value("shop")
    names = ["People in line", "Joins/min (rate scale)", "Passes/min (rate scale)", "Est. wait", "Actual wait p50/p90",
             "Events"]  # fmt: skip
    expect(region.locator(".legend span")).to_have_text(names)
    expect(entry(region, "Actual wait")).to_contain_text("28m / 40m")
    expect(region).to_contain_text("When the two waits differ, trust the measured one.")
    expect(region.locator("canvas")).to_have_count(2)
    wait_for(lambda: has(region, LINE, 0.1, 0.3) and has(region, LINE, 0.75, 0.9))
    assert has(region, JOINS, 0.1, 0.3)
    assert has(region, PASSES, 0.1, 0.3)
    assert not has(region, LINE, 0.45, 0.55), "a gap has no line"
    asked = stub.state()["queries"]
    assert "/history?roomId=shop" in asked
    assert any(re.fullmatch(r"/timeline\?from=\d{13}&roomId=shop", one) for one in asked)
    stub.room("shop", waiting=3999, waitP50Sec=60, waitP90Sec=90)
    stub.set(skew=STEP_MS)  # lengthened by the next frame
    wait_for(lambda: "3,999" in entry(region, "People in line").inner_text())
    expect(entry(region, "Actual wait")).to_contain_text("1m / 2m")

    select.select_option("All rooms")
    expect(region.locator(".legend span")).to_have_text(["People in line", "Joins/min (own scale)",
                                                         "Passes/min (own scale)", "Events"])  # fmt: skip
    expect(region.locator("canvas")).to_have_count(1)
    expect(region).not_to_contain_text("trust the measured one")
    wait_for(lambda: "/history?roomId=*" in stub.state()["queries"])  # sums, not the charts of all rooms
    assert "/history" not in stub.state()["queries"]
    stub.room("arena", waiting=100_000)
    stub.set(skew=2 * STEP_MS)
    wait_for(lambda: "116,694" in entry(region, "People in line").inner_text())
    for name in ("Visitors", "URLs", "Install"):
        card(page, "Checkout").get_by_role("button", name=name).click()
        expect(page.get_by_role("dialog")).to_contain_text("Checkout")
        page.keyboard.press("Escape")
    card(page, "Checkout").get_by_role("button", name="Chart").click()
    expect(region.get_by_role("heading", name="Chart")).to_be_focused()
    expect(select).to_have_value("checkout")
    assert page.evaluate("localStorage.qm_selected_room") == "checkout"
    page.reload()
    expect(select).to_have_value("checkout")
    stub.set(rooms={k: v for k, v in stub.state()["rooms"].items() if k != "checkout"})
    expect(select).to_have_value("shop")
    assert page.evaluate("localStorage.qm_selected_room") == "checkout", "there again when it comes back"


@pytest.mark.req("CON-117", "CON-118", "CON-119", "CON-120")
def test_lines_far_apart_have_scales_of_their_own(open_page: Callable[..., Page], stub: Stub) -> None:
    """And share one again by themselves."""
    now = int(time.time() * 1000)
    far = history(now, joinsPerMin=lambda place: 1000 if place < 30 else 100, passesPerMin=20)
    stub.set(histories={"shop": history(now, joinsPerMin=80, passesPerMin=20), "news": far})
    page = open_page()
    for room in ("shop", "news"):
        stub.room(room, joinsPerMin=70, passedLastMinute=20)
    sign_in(page)
    region = chart_of(page)
    note = region.get_by_text("lines that cross do not mean numbers that cross")

    expect(entry(region, "Joins/min (rate scale)")).to_be_visible()
    expect(entry(region, "Passes/min (rate scale)")).to_be_visible()
    expect(note).to_have_count(0)
    assert region.locator(".scale-joins").inner_text() == "/min"
    wait_for(lambda: has(region, JOINS_TEXT, 0, 0.04))
    assert not has(region, PASSES, 0, 0.03), "one amber scale"
    region.get_by_label("Room of the chart").select_option("Newsroom")
    expect(entry(region, "Joins/min (own scale)")).to_be_visible()
    expect(entry(region, "Passes/min (own scale)")).to_be_visible()
    expect(note).to_contain_text("Point at a time for both numbers.")
    wait_for(lambda: has(region, JOINS_TEXT, 0, 0.034) and has(region, PASSES, 0.038, 0.07))
    assert not has(region, PASSES, 0, 0.034), "each column in the colour of its line"
    assert not has(region, JOINS_TEXT, 0.038, 0.07)
    names = region.locator(".scale-name")
    assert names.all_inner_texts()[:2] == ["joins", "passes"]
    boxes = [names.nth(place).bounding_box() for place in range(2)]
    assert boxes[0]
    assert boxes[1]
    assert boxes[0]["x"] + boxes[0]["width"] < boxes[1]["x"]
    region.locator(".over").scroll_into_view_if_needed()
    box = region.locator(".over").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    tip = region.locator(".chart-tip")
    expect(tip).to_contain_text("Joins/min100")
    expect(tip).to_contain_text("Passes/min20")

    stub.room("news", passedLastMinute=300)
    stub.set(skew=STEP_MS)
    expect(entry(region, "Joins/min (rate scale)")).to_be_visible()
    expect(note).to_have_count(0)
    assert region.locator(".scale-name").first.inner_text() == "/min"


@pytest.mark.req("CON-121", "CON-123", "CON-124", "CON-125", "CON-126")
def test_it_tells_what_was_at_a_time_and_who_did_what(open_page: Callable[..., Page], stub: Stub) -> None:
    now = int(time.time() * 1000) // STEP_MS * STEP_MS + 100
    stub.set(stands_at=now)  # the chart does not move on
    stub.set(histories={"shop": history(now, waiting=lambda place: 1000 + place, joinsPerMin=60, passesPerMin=50,
                                        estWaitSec=None, waitP50Sec=30, waitP90Sec=90)})  # fmt: skip
    kinds = ["rate", "state", "activation", "autotune", "flush", "purge", "eject", "protection_block", "schedule",
             "draw"]  # fmt: skip
    alone: list[dict[str, Any]] = [
        {"ts": now - (50 - 4 * place) * 60_000, "kind": kind, "text": f"{kind} was changed"}
        for place, kind in enumerate(kinds)
    ]
    pair = [{"ts": now - 300_000 - place, "kind": "rate", "text": f"rate {place}"} for place in range(2)]
    every = enumerate(alone + pair)
    marks = [{"id": str(place), "roomId": "shop", "actor": "Night ops", **mark} for place, mark in every]
    stub.set(marks=marks)
    page = open_page(zone="UTC")
    sign_in(page)
    region, over = chart_of(page), page.get_by_role("slider", name="Chart: left and right")
    tip = region.locator(".chart-tip")
    lines = region.locator(".chart-mark")
    expect(entry(region, "Events")).to_contain_text("12")
    expect(lines).to_have_count(11)
    expect(region.locator(".chart-mark b")).to_have_text("2")

    over.scroll_into_view_if_needed()
    for place, kind in enumerate(kinds):
        box = lines.nth(place).bounding_box()
        assert box
        page.mouse.move(box["x"], box["y"] + 60)
        at = time.gmtime(alone[place]["ts"] / 1000)
        expect(tip.get_by_role("listitem")).to_have_count(1)
        expect(tip.get_by_role("listitem")).to_contain_text(f"{kind} was changed · Night ops · ")
        expect(tip.get_by_role("listitem")).to_contain_text(f"{at.tm_min:02d}:{at.tm_sec:02d}")
    box = region.locator(".chart-mark-many").bounding_box()
    assert box
    page.mouse.move(box["x"], box["y"] + 60)
    expect(tip.get_by_role("listitem")).to_have_text([re.compile("rate 1 "), re.compile("rate 0 ")])
    page.mouse.move(2, 2)
    expect(tip).to_have_count(0)

    over.focus()
    page.keyboard.press("Home")
    expect(tip.locator("dt")).to_have_text(["People in line", "Joins/min", "Passes/min", "Est. wait", "Actual p50",
                                            "Actual p90"])  # fmt: skip
    expect(tip.locator("dd").nth(1)).to_have_text("60")
    expect(tip.locator("dd").nth(3)).to_have_text("–")
    first = int(over.get_attribute("aria-valuetext").split("People in line ")[1].split(", Joins")[0].replace(",", ""))  # type: ignore[union-attr]
    for key, more in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1)):
        page.keyboard.press(key)
        expect(tip.locator("dd").first).to_have_text(f"{first + more:,}")
    expect(over).to_have_attribute("aria-valuetext", re.compile(f"People in line {first + 1:,}, Joins/min 60"))
    page.keyboard.press("Home")
    expect(tip.locator("dd").first).to_have_text(f"{first:,}")
    stub.set(skew=2 * STEP_MS)  # it is no longer on the chart: the oldest that is takes its place
    expect(tip.locator("dd").first).to_have_text(f"{first + 2:,}")
    page.keyboard.press("ArrowRight")
    expect(tip.locator("dd").first).to_have_text(f"{first + 3:,}")
    page.keyboard.press("Escape")
    expect(tip).to_have_count(0)

    for name, kept in (("Events", "events"), ("Joins", "events,joins")):
        entry(region, name).click()
        expect(entry(region, name)).to_have_attribute("aria-pressed", "false")
        assert page.evaluate("localStorage.qm_hidden_series") == kept
    expect(lines).to_have_count(0)
    page.reload()
    expect(entry(region, "Joins")).to_have_attribute("aria-pressed", "false")
    wait_for(lambda: has(region, PASSES, 0.2, 0.8))
    assert not has(region, JOINS, 0.2, 0.8)
    over.focus()
    page.keyboard.press("End")
    expect(tip.locator("dt")).to_have_text(["People in line", "Passes/min", "Est. wait", "Actual p50", "Actual p90"])
    for name in ("Passes", "People", "Est.", "Actual"):
        entry(region, name).click()
    wait_for(lambda: not has(region, PASSES, 0.2, 0.8) and not has(region, LINE, 0.2, 0.8))
    for name in ("Events", "Joins", "Passes", "People", "Est.", "Actual"):
        entry(region, name).click()
    expect(lines).to_have_count(11)
    wait_for(lambda: has(region, JOINS, 0.2, 0.8))
    assert page.evaluate("localStorage.qm_hidden_series ?? null") is None


@pytest.mark.req("CON-127", "CON-128", "CON-230", "CON-236")
def test_it_gives_its_figures_as_a_table_and_a_file_and_prints(open_page: Callable[..., Page], stub: Stub) -> None:
    now = int(time.time() * 1000)
    stub.set(histories={"shop": [], "news": history(now, gap=range(1, 700), waiting=lambda place: 5000 + place,
                                                    waitP50Sec=100, waitP90Sec=200)})  # fmt: skip
    stub.set(marks=[{"id": "a", "ts": now - 20_000, "roomId": "news", "kind": "flush", "text": "<i>flush</i> of 40",
                     "actor": "Dana"}])  # fmt: skip
    stub.room("shop", stale=True, staleSince=now)
    page = open_page(theme="dark")
    sign_in(page)
    region = page.get_by_role("region", name="Chart")
    expect(region).to_contain_text("No figures yet. One sample is taken every 5 s: the first is here in a moment.")
    stub.room("shop", stale=False)
    expect(region.locator("canvas").first).to_be_visible()
    region.get_by_label("Room of the chart").select_option("Newsroom")
    chart_of(page)

    region.get_by_role("button", name="Show as table").click()
    table = region.get_by_role("table")
    expect(table.locator("th")).to_have_text(["Time", "People in line", "Joins/min", "Passes/min", "Est. wait",
                                              "Actual p50", "Actual p90", "Events"])  # fmt: skip
    rows = table.locator("tbody tr")
    expect(rows.filter(has_text="5,719")).to_have_count(1)
    told = rows.filter(has_text="5,715").locator("td").all_inner_texts()
    assert told[1:7] == ["5,715", "0", "0", "0s", "2m", "3m"]
    assert rows.count() in range(20, 30), "gaps have no rows"
    expect(rows.filter(has_text="<i>flush</i> of 40 · Dana")).to_have_count(1)
    with page.expect_download() as saved:
        region.get_by_role("button", name="Export CSV").click()
    assert saved.value.suggested_filename == "qm-history-news.csv"
    assert "/history?roomId=news&format=csv" in stub.state()["queries"]
    region.get_by_role("button", name="Show as table").click()

    assert not has(region, JOINS, 0.5, 1)
    page.emulate_media(media="print", color_scheme="dark")
    for part in (card(page, "Shop"), page.locator(".live-clock time"), region.locator("canvas").first):
        expect(part).to_be_visible()
    expect(region.get_by_role("button", name="Export CSV")).to_be_hidden()
    expect(page.get_by_role("button", name="New room")).to_be_hidden()
    wait_for(lambda: has(region, JOINS, 0.5, 1))  # the colours of paper

    stub.set(protection={"mode": "off", "warnAt": 40, "blockAt": 70, "rooms": [], "signals": [], "recent": [],
                         "totals": dict.fromkeys(("scored", "warned", "wouldBlock", "blocked", "crawlers",
                                                  "allowListed"), 0)}, rows=[], entries=[])  # fmt: skip
    page.emulate_media(media="screen", color_scheme="light")
    for opener, sentences in (
        ("Security", ["There was nothing to decide yet.", "No signal has fired.", "every room follows the server"]),
        ("Share monitor", ["No link works at present."]),
        ("Reports", ["Nothing was counted in this time."]),
        ("Access", ["Nothing was done that fits."]),
    ):  # fmt: skip
        if opener in ("Reports", "Access"):
            page.get_by_role("button", name="Console").click()
            page.get_by_role("menuitem", name=opener).click()
        else:
            page.get_by_role("button", name=opener).click()
        for sentence in sentences:
            expect(page.get_by_role("dialog")).to_contain_text(sentence)
        page.keyboard.press("Escape")
