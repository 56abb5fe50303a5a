"""Refs that a visitor reads out."""

from __future__ import annotations

from hashlib import sha256

import pytest

from app.domain.estimate import estimated_wait_sec
from app.domain.refs import number_of, read_ref, ref_number, ref_of


def slow_ref(room_id: str, generation: int, ticket: int) -> str:
    raw = sha256(f"{room_id}\0{generation}\0{ticket}".encode()).digest()
    bits = bin(int.from_bytes(raw, "big"))[2:].zfill(256)[:30]
    return "".join("0123456789ABCDEFGHJKMNPQRSTVWXYZ"[int(bits[i : i + 5], 2)] for i in range(0, 30, 5))


@pytest.mark.req("ENG-244")
def test_it_takes_the_first_30_bits() -> None:
    for ticket in (1, 42, 4_000_000_000):
        assert ref_of("shop", 3, ticket) == slow_ref("shop", 3, ticket)
        assert number_of(ref_of("shop", 3, ticket)) == ref_number("shop", 3, ticket)


@pytest.mark.req("ENG-244")
def test_it_differs_by_room_generation_and_ticket() -> None:
    assert len({ref_of("shop", 1, 1), ref_of("shop", 1, 2), ref_of("shop", 2, 1), ref_of("Shop", 1, 1)}) == 4


@pytest.mark.req("ENG-244")
@pytest.mark.parametrize("typed", ["K7Q2M0", "k7q-2mo", " K7Q 2MO ", "K-7-Q-2-M-0"])
def test_it_reads_what_people_type(typed: str) -> None:
    assert read_ref(typed) == "K7Q2M0"


@pytest.mark.req("ENG-244")
@pytest.mark.parametrize("typed", ["", "K7Q2M", "K7Q2M00", "K7Q2MU", "K7Q2M!", "1042"])
def test_it_refuses_what_is_no_ref(typed: str) -> None:
    assert read_ref(typed) is None


@pytest.mark.parametrize(
    ("ahead", "rate", "seconds"),
    [(0, 60, 0), (317, 60, 317), (1, 60, 1), (1, 600, 1), (10, 7, 86), (5, 0, None), (5, -1, None)],
)
def test_it_estimates_the_wait_rounded_up(ahead: int, rate: float, seconds: int | None) -> None:
    assert estimated_wait_sec(ahead, rate) == seconds
