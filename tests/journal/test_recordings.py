"""Journals as released versions wrote them: this build rebuilds each."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.domain.facts import EVENT_LOG_VERSION, FactType, UnknownFact, decode_body
from tests.journal.house import House
from tests.journal.recording import kinds_in, put_back, recordings, told

RECORDED = recordings()
GUIDE = Path(__file__).resolve().parents[2] / "docs/development.md"


@pytest.mark.req("FLT-101")
def test_every_version_of_the_format_has_a_recording_with_every_kind_of_fact() -> None:
    assert sorted({lv for lv, _ in RECORDED}) == list(range(1, EVENT_LOG_VERSION + 1))
    newest: set[FactType] = set()
    for (lv, _), recorded in RECORDED.items():
        rows, kinds = recorded["tables"]["events"], kinds_in(recorded)
        assert max(row[4] for row in rows) == lv
        assert newest <= kinds, "a type is never taken back"
        newest = kinds
        assert len(rows) > 400
    assert newest == set(FactType), "a new type belongs into a recording of its own"


@pytest.mark.req("FLT-101")
@pytest.mark.parametrize("recording", RECORDED, ids=lambda key: "lv{}-{}".format(*key))
async def test_it_rebuilds_what_a_release_has_recorded(house: House, recording: tuple[int, int]) -> None:
    await put_back(house.postgres, RECORDED[recording])

    assert await house.recovery.ensure_all() == 1, "the room that was deleted needs nothing"

    found, expected = await told(house, "shop"), RECORDED[recording]["told"]
    assert (found["config"], found["waiting"]) == (expected["config"], expected["waiting"])
    for number, (now, then) in enumerate(zip(found["tickets"], expected["tickets"], strict=True), 1):
        assert now == then, f"ticket {number}"


@pytest.mark.req("FLT-101", "FLT-100")
@pytest.mark.parametrize("kind", FactType)
def test_no_kind_of_fact_is_read_in_a_version_that_is_not_known(kind: FactType) -> None:
    newest = RECORDED[max(RECORDED)]
    bodies = [row for row in newest["tables"]["events"] if row[3] == kind]
    body = bytes.fromhex(bodies[0][7]["hex"])
    for lv in (0, EVENT_LOG_VERSION + 1, 255):
        with pytest.raises(UnknownFact):
            decode_body(kind, lv, body)
    with pytest.raises(UnknownFact):
        decode_body(max(FactType) + 1, 1, body)


@pytest.mark.req("FLT-101")
def test_the_guide_says_how_the_format_is_changed() -> None:
    text = " ".join(GUIDE.read_text("utf-8").split())
    for words in (
        "A new kind of fact gets a new type",
        "the next `lv`",
        "EVENT_LOG_VERSION",
        "one recorded journal for each released version",
        "tests.journal.recording",
    ):
        assert words in text, words
