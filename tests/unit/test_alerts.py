"""Alerts over time: when one fires, is told again, and is over."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from app.domain.alerts import (
    GENERAL,
    KINDS,
    OF_FIGURES,
    Alert,
    Looked,
    Notice,
    Pace,
    Severity,
    Status,
    Trouble,
    changes,
    look,
)

PACE = Pace(hold_ms=120_000, repeat_ms=600_000, gap_ms=30_000)
STEP = 10_000
SHOP = Trouble("queue_frozen", "Shop: 2 waiting while the room is paused", "shop")
DROP = Trouble("queue_frozen", "Drop: 1 waiting while the room is paused", "drop")


class Looker:
    """Looks one after the other, ten seconds apart."""

    def __init__(self, pace: Pace = PACE, *, tells: bool = True) -> None:
        self.looked = Looked({})
        self.now = 1_000_000
        self.pace = pace
        self.tells = tells

    def __call__(self, *troubles: Trouble, after: int = STEP, blind: Sequence[str] = ()) -> list[tuple[str, str]]:
        """Status and subject of each notice of one look; ``blind``: rooms of which nothing is known."""
        self.now += after
        self.looked, notices = look(
            self.looked, troubles, self.now, self.pace, tells=self.tells,
            is_judged=lambda trouble: trouble.room_id not in blind,
        )  # fmt: skip
        return [(notice.status.value, notice.alert.trouble.room_id or "") for notice in notices]

    def many(self, sec: int, *troubles: Trouble) -> list[tuple[str, str]]:
        """Notices of all looks of so many seconds."""
        return [told for _ in range(sec * 1000 // STEP) for told in self(*troubles)]


@pytest.mark.req("OBS-112", "CFG-083", "CFG-084")
def test_it_fires_after_the_hold_repeats_and_resolves() -> None:
    looks = Looker()
    assert looks.many(120, SHOP) == []
    (pending,) = looks.looked.pending
    since = pending.since
    assert looks(SHOP) == [("firing", "shop")]
    assert looks.now == since + 120_000
    assert looks.many(590, SHOP) == []
    assert looks(SHOP) == [("firing", "shop")]
    assert looks.many(590, SHOP) == []
    (firing,) = looks.looked.firing
    assert (firing.since, firing.told_at) == (since, looks.now - 590_000)
    assert looks() == [("resolved", "shop")]
    assert looks() == []
    assert looks.looked.alerts == {}


@pytest.mark.req("OBS-112")
def test_it_holds_without_a_break_and_says_nothing_of_what_ends_before() -> None:
    looks = Looker()
    assert looks.many(120, SHOP) == []
    assert looks() == []
    assert looks.many(120, SHOP) == [], "the hold begins anew"
    assert looks(SHOP) == [("firing", "shop")]


@pytest.mark.req("OBS-112")
def test_it_does_not_count_time_in_which_nobody_looked() -> None:
    looks = Looker()
    assert looks.many(110, SHOP) == []
    assert looks(SHOP, after=31_000) == []
    assert looks.many(110, SHOP) == []
    assert looks(SHOP) == [("firing", "shop")]
    assert looks(SHOP, after=599_999) == [], "one that has fired goes on"
    assert looks(SHOP, after=1) == [("firing", "shop")]


@pytest.mark.req("CFG-083", "CFG-084")
def test_it_fires_at_once_without_a_hold_and_never_again_without_a_repeat() -> None:
    looks = Looker(Pace(0, 0, 30_000))
    assert looks(SHOP) == [("firing", "shop")]
    assert looks.many(10_000, SHOP) == []
    assert looks() == [("resolved", "shop")]


@pytest.mark.req("OBS-114")
def test_it_tells_two_rooms_apart_and_two_messages_of_one_together() -> None:
    looks = Looker()
    looks(SHOP)
    looks(SHOP, DROP)
    looks.many(100, SHOP, DROP)
    assert looks(SHOP, DROP) == [("firing", "shop")]
    worse = Trouble("queue_frozen", "Shop: 900 waiting and the rate is 0/min", "shop")
    assert looks(worse, DROP) == [("firing", "drop")]
    assert [alert.trouble.message for alert in looks.looked.firing] == [worse.message, DROP.message]
    assert looks(DROP) == [("resolved", "shop")]


def test_it_takes_not_knowing_for_neither_better_nor_worse() -> None:
    looks = Looker()
    looks.many(130, SHOP)
    assert looks(blind=["shop"]) == []
    assert [alert.trouble.room_id for alert in looks.looked.firing] == ["shop"]
    looks(SHOP, DROP)
    assert looks(SHOP, after=150_000, blind=["drop"]) == [], "what cannot be seen does not fire"
    assert looks() == [("resolved", "shop")]


@pytest.mark.req("OBS-114")
def test_it_holds_one_alert_for_each_instance_where_it_belongs_to_instances() -> None:
    def unreachable(*names: str, alone: bool) -> Trouble:
        return Trouble("valkey_unreachable", "cannot reach Valkey", None, names, alone)

    alone = [unreachable("i:a", alone=True), unreachable("i:b", alone=True)]
    assert len({trouble.key for trouble in alone}) == 2
    assert unreachable("i:a", alone=False).key == unreachable("i:a", "i:b", alone=False).key


def test_it_tells_a_receiver_that_came_later_what_is_firing() -> None:
    looks = Looker(tells=False)
    assert looks.many(300, SHOP) == []
    assert [(alert.told_at, alert.fired_at is None) for alert in looks.looked.firing] == [(None, False)]
    looks.tells = True
    assert looks(SHOP) == [("firing", "shop")]

    looks = Looker(tells=False)
    looks.many(300, SHOP)
    looks.tells = True
    assert looks() == [], "nothing is resolved that was never told"


def test_it_writes_only_what_changed() -> None:
    looks = Looker()
    before = looks.looked
    looks(SHOP, DROP)
    assert set(changes(before, looks.looked)) == {SHOP.key, DROP.key}
    before = looks.looked
    looks(SHOP, DROP)
    assert changes(before, looks.looked) == {}
    looks(SHOP)
    assert changes(before, looks.looked) == {DROP.key: None}


def test_it_keeps_an_alert_as_it_is() -> None:
    for trouble in (SHOP, Trouble("valkey_unreachable", "ü\n", None, ("i:a",), True)):
        for alert in (Alert(trouble, 5), Alert(trouble, 5, 6, 7)):
            assert Alert.from_text(alert.to_text()) == alert
    assert Alert.from_text('["of_a_later_release", "m", null, [], false, 5, null, null]') is None


@pytest.mark.req("OBS-115")
def test_it_knows_three_severities() -> None:
    assert {kind.severity.value for kind in KINDS.values()} == {"critical", "warning", "info"} == set(Severity)
    assert Notice(Alert(SHOP, 1), Status.FIRING, 2).alert.trouble.severity is Severity.WARNING


@pytest.mark.req("ADM-241", "ADM-238")
def test_every_message_that_may_name_the_inside_has_a_general_sentence() -> None:
    assert {*GENERAL, *OF_FIGURES, "test"} == set(KINDS)
    assert not OF_FIGURES & set(GENERAL)
