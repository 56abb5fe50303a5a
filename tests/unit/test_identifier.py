"""What is remembered of a visitor who asks again: never longer than his token is good."""

from __future__ import annotations

from app.domain.client_address import NO_PROXY, resolve_client
from app.domain.cookies import CookiePolicy
from app.domain.keyring import Keyring
from app.domain.room import Room, RoomConfig
from app.domain.tokens import VisitorTokens
from app.infrastructure.engine_results import Presented
from app.services.visitor_counts import VisitorCounts
from app.services.visitor_proof import Identifier, Visitor
from app.services.visitor_room import VisitorRoom

NOW = 1_788_253_200_000
HOUR = 3_600_000
TOKENS = VisitorTokens(Keyring("s" * 40), max_age_sec=3600, cookie_max_age_sec=86400)
CLIENT = resolve_client("192.0.2.7", {b"host": b"q.example"}.get, NO_PROXY)


def room(salt: bytes = b"s" * 16) -> VisitorRoom:
    config = RoomConfig("shop", "Shop", "https://shop.example/")
    return VisitorRoom(Room(config, 1, salt, 1, 1, 1), CookiePolicy(None, 86400))


def identifier() -> tuple[Identifier, VisitorCounts]:
    counts = VisitorCounts()
    return Identifier(engine=None, tokens=TOKENS, counts=counts), counts  # type: ignore[arg-type]


def visitor(*tokens: str) -> Visitor:
    return Visitor(CLIENT, b"Agent", tokens, ("A" * 43,))


def test_it_reads_a_visitor_once_while_his_token_is_good() -> None:
    who, shop = visitor(TOKENS.sign("shop", 1, 42, NOW)), room()
    judge, _ = identifier()

    first = judge.identify(shop, who, NOW)

    assert judge.identify(shop, who, NOW + HOUR) is first
    assert (first.proof.presented, first.proof.ticket) == (Presented.VALID, 42)


def test_it_refuses_a_remembered_token_once_it_is_too_old() -> None:
    who, shop = visitor(TOKENS.sign("shop", 1, 42, NOW)), room()
    judge, counts = identifier()
    judge.identify(shop, who, NOW)

    late = judge.identify(shop, who, NOW + HOUR + 1)

    assert (late.proof.presented, late.claims) == (Presented.REFUSED, None)
    assert sum(counts.rejected_tokens.values()) == 1


def test_it_counts_a_refused_token_each_time_it_is_shown() -> None:
    good, bad = TOKENS.sign("shop", 1, 42, NOW), "e30." + "A" * 43
    judge, counts = identifier()

    for who in (visitor(bad), visitor(good, bad)):
        shop = room()
        for _ in range(3):
            judge.identify(shop, who, NOW)

    assert sum(counts.rejected_tokens.values()) == 6


def test_it_reads_a_visitor_anew_for_another_copy_of_a_room() -> None:
    who = visitor(TOKENS.sign("shop", 1, 42, NOW))
    judge, _ = identifier()

    before, after = judge.identify(room(), who, NOW), judge.identify(room(b"t" * 16), who, NOW)

    assert before.proof.strict != after.proof.strict


def test_it_refuses_a_remembered_visitor_whose_token_is_of_another_room() -> None:
    who = visitor(TOKENS.sign("other", 1, 42, NOW))
    judge, _ = identifier()

    for _ in range(2):
        assert judge.identify(room(), who, NOW).proof.presented is Presented.REFUSED
