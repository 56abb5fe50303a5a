"""``qm_from``: the fingerprint by which a connector saw a visitor, signed for one room and ten minutes."""

from __future__ import annotations

import pytest

from app.domain.from_tokens import FromTokens
from app.domain.keyring import Keyring, Purpose
from app.domain.tokens import Cause, SignedTokens, VisitorTokens

SECRET = "a-secret-of-more-than-32-characters!"
NOW = 1_788_253_200_000
PRINT = bytes(range(16))


def froms(*, sign_v2: bool = False, secret: str = SECRET) -> FromTokens:
    return FromTokens(Keyring(secret, sign_v2=sign_v2))


@pytest.mark.parametrize("sign_v2", [False, True])
def test_it_hands_the_fingerprint_over_for_one_room_and_ten_minutes(sign_v2: bool) -> None:
    value = froms(sign_v2=sign_v2).sign("shop", PRINT, NOW)

    assert froms().read(value, "shop", NOW) == PRINT
    assert froms(sign_v2=True).read(value, "shop", NOW + 600_000) == PRINT
    assert froms().read(value, "shop", NOW + 600_001) == b""
    assert froms().read(value, "shop", NOW - 60_001) == b""
    assert froms().read(value, "drop", NOW) == b""


def test_it_reads_nothing_out_of_what_is_missing_forged_or_of_another_kind() -> None:
    value = froms().sign("shop", PRINT, NOW)
    signed = SignedTokens(Keyring(SECRET), Purpose.VISITOR)
    tokens = VisitorTokens(Keyring(SECRET), max_age_sec=86400, cookie_max_age_sec=86400)
    good = {"scope": "from", "room": "shop", "print": "A" * 22, "iat": NOW}
    bad = [{"scope": "monitor"}, {"print": 7}, {"print": "A" * 21}, {"iat": "now"}, {"iat": True}, {"room": 1}]

    refused = [signed.sign({**good, **change}) for change in bad]
    for text in (None, "", "x", value[:-2], value + "A", "A" * 5000, tokens.sign("shop", 1, 7, NOW), *refused):
        assert froms().read(text, "shop", NOW) == b"", text
    assert froms(secret="another-secret-with-enough-characters").read(value, "shop", NOW) == b""
    assert tokens.verify(value, "shop", NOW) is Cause.MALFORMED, "it is no ticket"
