"""The order of a drawn pre-queue: round-robin over identities, fair, and a function of its inputs alone."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter

import pytest

from app.domain.draw import Order, Place, draw, places_in
from app.domain.layout import PLACE_LATE, PlaceRecord, TicketRecord
from app.domain.ticket_state import TicketState


def places_of(*sizes: int) -> list[Place]:
    """Places of identities that hold so many each, with random handles."""
    owners = [identity for identity, size in enumerate(sizes) for _ in range(size)]
    return [(n, secrets.token_bytes(16), owner.to_bytes(8, "big")) for n, owner in enumerate(owners, 1)]


def numbers(order: Order) -> list[int]:
    return [int.from_bytes(order.places[at : at + 4], "little") for at in range(0, len(order.places), 4)]


@pytest.mark.req("ENG-177", "ENG-284")
def test_it_gives_every_identity_its_next_place_before_any_the_one_after() -> None:
    places = places_of(16, *[1] * 100, 3, 2)
    owner = {number: identity for number, _, identity in places}
    for _ in range(20):
        order = numbers(draw(secrets.token_bytes(32), places))

        assert sorted(order) == sorted(owner)
        nth: Counter[bytes] = Counter()
        rounds = []
        for number in order:
            nth[owner[number]] += 1
            rounds.append(nth[owner[number]])
        assert rounds == sorted(rounds)
        assert rounds.count(1) == 103


@pytest.mark.req("ENG-300")
def test_it_is_a_function_of_seed_and_places_whatever_their_order() -> None:
    places, seed = places_of(5, 3, 1, 1), secrets.token_bytes(32)
    shuffled = list(places)
    secrets.SystemRandom().shuffle(shuffled)

    assert draw(seed, shuffled) == draw(seed, places)
    assert draw(secrets.token_bytes(32), places_of(*[1] * 30)) != draw(seed, places_of(*[1] * 30))


@pytest.mark.req("ENG-177", "ENG-300")
@pytest.mark.parametrize("start", range(8))
def test_it_is_what_its_description_says(start: int) -> None:
    seed = bytes(range(start, start + 32))
    places: list[Place] = [(1, b"a" * 16, b"x" * 8), (2, b"b" * 16, b"x" * 8), (3, b"c" * 16, b"y" * 8)]
    key = {n: hashlib.sha512(seed + handle).digest() for n, handle, _ in places}
    first, second = sorted((1, 2), key=lambda n: key[n][:32])

    order = draw(seed, places)

    assert numbers(order) == [*sorted((first, 3), key=lambda n: key[n][32:]), second]
    handles = {n: handle for n, handle, _ in places}
    assert order.digest == hashlib.sha256(b"".join(handles[n] for n in numbers(order))).digest()
    assert (order.count, order.identities) == (3, 2)


def test_it_draws_nobody_too() -> None:
    assert draw(bytes(32), []) == Order(b"", 0, 0, hashlib.sha256().digest())


def deviation(draws: int, size: int, others: int) -> float:
    """Chi-square of where the first place of an identity with ``others`` further ones stands in round 1."""
    places = places_of(1 + others, *[1] * (size - 1))
    seen = Counter()
    for _ in range(draws):
        order = numbers(draw(secrets.token_bytes(32), places))
        mine = {number for number, _, identity in places if identity == bytes(8)}
        seen[next(at for at, number in enumerate(order) if number in mine)] += 1
    expected = draws / size
    return sum((seen[at] - expected) ** 2 / expected for at in range(size))


# Quantiles of chi-square with 9 degrees of freedom: 1 in a million draws of a fair order lies above 45.1.
FAIR = 45.1


@pytest.mark.req("ENG-177", "ENG-178")
@pytest.mark.parametrize("others", [0, 7])
def test_it_puts_a_first_place_anywhere_in_round_one(others: int) -> None:
    assert deviation(600, 10, others) < FAIR


@pytest.mark.slow
@pytest.mark.req("ENG-178")
@pytest.mark.parametrize("others", [0, 15])
def test_it_is_uniform_over_ten_thousand_draws(others: int) -> None:
    assert deviation(10_000, 10, others) < FAIR


@pytest.mark.req("ENG-178")
def test_it_gives_no_advantage_to_those_who_came_first() -> None:
    places, ranks = places_of(*[1] * 20), Counter()
    for _ in range(400):
        for rank, number in enumerate(numbers(draw(secrets.token_bytes(32), places))):
            ranks[number <= 10] += rank

    # The mean rank of each half is 9.5; its standard deviation over 400 draws is 0.065.
    assert abs(ranks[True] - ranks[False]) / 4000 < 1.0


def test_it_takes_those_who_hold_a_place_when_the_list_is_fixed() -> None:
    def record(state: int, flags: int = 0) -> bytes:
        ticket = TicketRecord(state, flags, 0, 0, 0, b"identity", bytes(16), bytes(16), bytes(16))
        return PlaceRecord(ticket, b"h" * 16).pack()

    states = [TicketState.WAITING, TicketState.EXPIRED, TicketState.WITHDRAWN, TicketState.NONE, TicketState.WAITING]
    records = b"".join(map(record, states)) + record(TicketState.EXPIRED, PLACE_LATE)

    assert places_in(records, 1025, 1025) == [
        (1029, b"h" * 16, b"identity"),
        (1030, b"h" * 16, b"identity"),
    ]
    assert [place[0] for place in places_in(records, 1, 0)] == [1, 5, 6]
