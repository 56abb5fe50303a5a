"""The visitor's cookies: flags, reading, the cap of rooms."""

from __future__ import annotations

import pytest

from app.domain.cookies import CookiePolicy, RoomCookies, surplus_rooms, ticket_candidates

AUTO = CookiePolicy(secure=None, queue_max_age_sec=86400)


def room(policy: CookiePolicy = AUTO) -> RoomCookies:
    return RoomCookies("shop", policy, session_max_sec=14400)


def test_it_writes_the_ticket_cookie() -> None:
    assert room().ticket("T", "http") == b"qm_shop=T; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax"


def test_it_writes_the_session_cookie() -> None:
    assert room().session("S", "http") == b"qms_shop=S; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax"


def test_it_keeps_the_door_key_as_long_as_a_session_may_last() -> None:
    assert room().door("D", "http") == b"qm_dk_shop=D; Path=/; Max-Age=14400; HttpOnly; SameSite=Lax"


@pytest.mark.req("VIS-053", "CFG-024", "VIS-021")
@pytest.mark.parametrize(
    ("secure", "scheme", "expected"),
    [
        (None, "http", False), (None, "https", True), (True, "http", True),
        (True, "https", True), (False, "http", False), (False, "https", False),
    ],
)  # fmt: skip
def test_it_marks_every_cookie_secure_by_scheme_or_setting(secure: bool | None, scheme: str, expected: bool) -> None:
    cookies = room(CookiePolicy(secure, 600))

    values = [cookies.ticket("T", scheme), cookies.session("S", scheme), cookies.door("D", scheme)]
    values += cookies.clear_all(scheme) + cookies.clear_ticket_and_door(scheme)

    assert {value.endswith(b"; Secure") for value in values} == {expected}


def test_it_clears_by_an_age_of_zero_under_the_same_path() -> None:
    end = b"=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"

    assert room().clear_all("http") == [b"qm_shop" + end, b"qms_shop" + end, b"qm_dk_shop" + end]
    assert room().clear_ticket_and_door("http") == [b"qm_shop" + end, b"qm_dk_shop" + end]


def test_it_looks_for_tickets_in_plain_names_first_and_never_in_the_console_cookie() -> None:
    doors = [(f"qm_dk_r{n}", "door") for n in range(8)]
    pairs = [*doors, ("qm_console", "c"), ("qm_lang", "en"), ("qms_shop", "s"), ("other", "o"), ("qm_shop", "t")]

    found = ticket_candidates(pairs)

    assert found[0] == ("shop", "t")
    assert len(found) == 8
    assert all(room_id != "console" for room_id, _ in found)


def test_it_finds_a_room_that_already_has_a_reserved_name() -> None:
    assert ticket_candidates([("qm_alerts", "t")]) == [("alerts", "t")]


@pytest.mark.parametrize("name", ["qm_", "qm_-x", "qm_a b", "qm_" + "x" * 65, "qm_é"])
def test_it_takes_no_cookie_for_a_ticket_whose_name_holds_no_room_id(name: str) -> None:
    assert ticket_candidates([(name, "t")]) == []


def issue_times(**ages: int | None) -> tuple[list[tuple[str, str]], dict[str, int | None]]:
    return [(f"qm_{room_id}", "t") for room_id in ages], dict(ages)


def test_it_clears_the_room_whose_token_is_oldest_when_a_ninth_room_comes() -> None:
    pairs, ages = issue_times(r1=9, r2=3, r3=5, r4=7, r5=8, r6=6, r7=4, r8=10)

    assert surplus_rooms(pairs, "shop", lambda room_id, _: ages[room_id]) == ["r2"]


@pytest.mark.req("VIS-056")
def test_it_clears_unreadable_tokens_first() -> None:
    pairs, ages = issue_times(r1=9, r2=3, r3=5, r4=7, r5=None, r6=6, r7=4, r8=10)

    assert surplus_rooms(pairs, "shop", lambda room_id, _: ages[room_id]) == ["r5"]


def test_it_clears_nothing_up_to_eight_rooms() -> None:
    pairs, ages = issue_times(r1=1, r2=2, r3=3, r4=4, r5=5, r6=6, r7=7)

    assert surplus_rooms([*pairs, ("qm_shop", "t")], "shop", lambda room_id, _: ages[room_id]) == []


def test_it_does_not_count_door_keys_or_the_console_as_rooms() -> None:
    pairs = [(f"qm_dk_r{n}", "d") for n in range(9)] + [("qm_console", "c"), ("qm_lang", "l")]

    assert surplus_rooms(pairs, "shop", lambda *_: 1) == []
