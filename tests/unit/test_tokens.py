"""Tokens: both forms, every refusal and the order in which refusals are found."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.keyring import Keyring, Purpose, hkdf, kid_of
from app.domain.tokens import Cause, Claims, SignedTokens, VisitorTokens

SECRET = "a-secret-of-more-than-32-characters!"
OTHER = "another-secret-with-enough-characters"
NOW = 1_788_253_200_000
DAY_MS = 86_400_000
HANDLE = "A" * 22
GOOD: dict[str, Any] = {"room": "shop", "gen": 3, "ticket": 42, "iat": NOW}
CLAIMS = Claims("shop", 3, 42, "", NOW)


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def forge(payload: Any, key: bytes = SECRET.encode()) -> str:
    """A token made by hand, as the published format says."""
    body = b64(payload if isinstance(payload, bytes) else json.dumps(payload).encode())
    return body + "." + b64(hmac.new(key, body.encode(), hashlib.sha256).digest())


def v2_key(purpose: str, secret: str = SECRET) -> bytes:
    return hkdf(secret.encode(), f"qm:{purpose}".encode(), 32)


def tokens(secret: str = SECRET, previous: str | None = None, *, sign_v2: bool = False) -> VisitorTokens:
    return VisitorTokens(Keyring(secret, previous, sign_v2=sign_v2), max_age_sec=86400, cookie_max_age_sec=86400)


@pytest.mark.req("ENG-080", "ENG-082", "CFG-145")
def test_it_writes_the_legacy_form() -> None:
    body, mac = tokens().sign("shop", 3, 42, NOW).split(".")

    assert json.loads(base64.urlsafe_b64decode(body + "==")) == GOOD
    assert mac == b64(hmac.new(SECRET.encode(), body.encode(), hashlib.sha256).digest())


@pytest.mark.req("ENG-083", "ENG-084", "CFG-145", "CFG-147")
def test_it_writes_the_v2_form() -> None:
    body, mac = tokens(sign_v2=True).sign("shop", 3, 42, NOW).split(".")

    assert json.loads(base64.urlsafe_b64decode(body + "==")) == {**GOOD, "kid": kid_of(SECRET)}
    assert mac == b64(hmac.new(v2_key("visitor"), body.encode(), hashlib.sha256).digest())
    for purpose in Purpose:
        signed = SignedTokens(Keyring(SECRET, sign_v2=True), purpose).sign({"scope": "x"})
        part, end = signed.split(".")
        assert end == b64(hmac.new(v2_key(purpose), part.encode(), hashlib.sha256).digest())


@pytest.mark.req("ENG-081", "CFG-148")
@pytest.mark.parametrize("reader", [False, True])
@pytest.mark.parametrize("writer", [False, True])
def test_it_reads_both_forms_whichever_it_writes(writer: bool, reader: bool) -> None:
    token = tokens(sign_v2=writer).sign("shop", 3, 42, NOW)

    assert tokens(sign_v2=reader).verify(token, "shop", NOW) == CLAIMS


def test_it_reads_a_payload_with_its_members_in_any_order() -> None:
    token = forge({"iat": NOW, "ticket": 42, "room": "shop", "gen": 3, "later": {"a": [1]}})

    assert tokens().verify(token, "shop", NOW) == CLAIMS


def test_it_reads_a_handle() -> None:
    token = forge({"room": "shop", "gen": 3, "handle": HANDLE, "iat": NOW})

    assert tokens().verify(token, "shop", NOW) == Claims("shop", 3, 0, HANDLE, NOW)


@pytest.mark.req("ENG-087", "CFG-150")
@pytest.mark.parametrize("sign_v2", [False, True])
def test_it_accepts_what_the_previous_secret_signed(sign_v2: bool) -> None:
    old = tokens(OTHER, sign_v2=sign_v2).sign("shop", 3, 42, NOW)

    new = tokens(SECRET, sign_v2=sign_v2).sign("shop", 3, 42, NOW)

    assert tokens(SECRET, OTHER).verify(new, "shop", NOW) == CLAIMS
    assert tokens(SECRET, OTHER).verify(old, "shop", NOW) == CLAIMS
    refusal = Cause.UNKNOWN_KID if sign_v2 else Cause.BAD_SIGNATURE
    assert tokens(SECRET).verify(old, "shop", NOW) is refusal
    assert tokens(SECRET, "a-third-secret-that-signed-none-of-them").verify(old, "shop", NOW) is refusal


@pytest.mark.req("ENG-085", "CFG-147")
def test_it_never_tries_a_token_with_kid_as_legacy() -> None:
    for kid in (kid_of(SECRET), "00000000", None, 7, "", ["x"]):
        refusal = tokens(SECRET, OTHER).verify(forge({**GOOD, "kid": kid}), "shop", NOW)

        assert refusal is (Cause.BAD_SIGNATURE if kid == kid_of(SECRET) else Cause.UNKNOWN_KID)
    crossed = forge({**GOOD, "kid": kid_of(OTHER)}, v2_key("visitor"))
    assert tokens(SECRET, OTHER).verify(crossed, "shop", NOW) is Cause.BAD_SIGNATURE


@pytest.mark.req("ENG-085")
@pytest.mark.parametrize("purpose", [p for p in Purpose if p is not Purpose.VISITOR])
def test_it_refuses_a_v2_token_of_another_purpose(purpose: Purpose) -> None:
    token = forge({**GOOD, "kid": kid_of(SECRET)}, v2_key(purpose))

    assert tokens().verify(token, "shop", NOW) is Cause.BAD_SIGNATURE
    legacy = forge({"scope": str(purpose), "room": "shop", "gen": 1, "ticket": 1, "iat": NOW})
    assert tokens().verify(legacy, "shop", NOW) is Cause.MALFORMED


@pytest.mark.req("ENG-085")
@pytest.mark.parametrize("purpose", Purpose)
def test_it_opens_a_v2_token_for_its_own_purpose_alone(purpose: Purpose) -> None:
    keyring = Keyring(SECRET, sign_v2=True)
    token = SignedTokens(keyring, purpose).sign({"a": 1})

    opened = {other: SignedTokens(keyring, other).open(token) for other in Purpose}

    assert opened.pop(purpose) == {"a": 1, "kid": keyring.kid}
    assert set(opened.values()) == {Cause.BAD_SIGNATURE}


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "a.",
        ".a",
        "a",
        "a.b.c",
        "a.b=",
        "a b.c",
        "ä.b",
        "a+.b/",
        "abcde.abcd",
        "abcd.abcde",
        "\ud800.a",
        "a\n.b",
    ],
)
def test_it_calls_text_malformed_that_is_not_two_base64url_parts(text: str) -> None:
    assert tokens().verify(text, "shop", NOW) is Cause.MALFORMED


def test_it_calls_a_token_malformed_above_4096_characters() -> None:
    fits = forge({**GOOD, "pad": "x" * 2900})
    long = forge({**GOOD, "pad": "x" * 3100})
    assert len(fits) <= 4096 < len(long)

    assert tokens().verify(fits, "shop", NOW) == CLAIMS
    assert tokens().verify(long, "shop", NOW) is Cause.MALFORMED


@pytest.mark.parametrize(
    "change",
    [
        {"room": None}, {"room": 1}, {"room": ["shop"]},
        {"gen": None}, {"gen": 0}, {"gen": "3"}, {"gen": 3.0}, {"gen": True}, {"gen": 1 << 32},
        {"ticket": None}, {"ticket": 0}, {"ticket": -1}, {"ticket": "42"}, {"ticket": True}, {"ticket": 1 << 32},
        {"iat": None}, {"iat": "x"}, {"iat": 1.5}, {"iat": True}, {"iat": -1}, {"iat": 1 << 60},
        {"handle": HANDLE}, {"handle": None}, {"scope": "from"}, {"scope": None}, {"scope": "visitor"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("sign_v2", [False, True])
def test_it_calls_a_payload_malformed_with_a_missing_foreign_or_ill_typed_member(
    change: dict[str, Any], sign_v2: bool
) -> None:
    payload = {**GOOD, **change}
    gone = {key: value for key, value in payload.items() if not (key in change and value is None and key in GOOD)}
    versions = [payload] if payload == gone else [payload, gone]
    for version in versions:
        token = forge({**version, "kid": kid_of(SECRET)}, v2_key("visitor")) if sign_v2 else forge(version)

        assert tokens().verify(token, "shop", NOW) is Cause.MALFORMED


@pytest.mark.parametrize("raw", [b"", b"1", b"[]", b'"x"', b"null", b"{", b"\xff\xfe", b"[" * 2000])
def test_it_calls_signed_text_malformed_that_is_no_json_object(raw: bytes) -> None:
    token = forge(raw)

    assert tokens().verify(token, "shop", NOW) is Cause.MALFORMED
    assert tokens().verify("QUJD" + token, "shop", NOW) is not None


@pytest.mark.parametrize("handle", ["", "A" * 21, "A" * 23, "A" * 21 + "=", 7, ["x"]])
def test_it_calls_a_handle_malformed_that_is_none(handle: Any) -> None:
    token = forge({"room": "shop", "gen": 3, "handle": handle, "iat": NOW})

    assert tokens().verify(token, "shop", NOW) is Cause.MALFORMED


def test_it_refuses_a_changed_body_or_signature() -> None:
    body, mac = forge(GOOD).split(".")

    for bad in (mac[:-1] + ("A" if mac[-1] != "A" else "B"), "A" * 43, mac + "A", mac[:40], mac + mac):
        verdict = tokens().verify(f"{body}.{bad}", "shop", NOW)
        assert verdict in {Cause.BAD_SIGNATURE, Cause.MALFORMED}
        assert not isinstance(verdict, Claims)
    changed = b64(json.dumps({**GOOD, "ticket": 41}).encode())
    assert tokens().verify(f"{changed}.{mac}", "shop", NOW) is Cause.BAD_SIGNATURE


def test_it_refuses_another_spelling_of_the_same_signature() -> None:
    body, mac = forge(GOOD).split(".")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = alphabet.index(mac[-1])

    for spare in range(4):
        same_bytes = mac[:-1] + alphabet[(last & ~3) | spare]
        verdict = tokens().verify(f"{body}.{same_bytes}", "shop", NOW)
        assert (verdict == CLAIMS) is (same_bytes == mac)


def test_it_refuses_the_token_of_another_room() -> None:
    assert tokens().verify(forge(GOOD), "Shop", NOW) is Cause.WRONG_ROOM
    assert tokens().verify(forge(GOOD), None, NOW) == CLAIMS


@pytest.mark.req("ENG-089", "FLT-128", "CFG-158")
@pytest.mark.parametrize(
    ("age_ms", "verdict"),
    [(0, CLAIMS), (DAY_MS, CLAIMS), (DAY_MS + 1, Cause.EXPIRED), (-60_000, CLAIMS), (-60_001, Cause.FUTURE)],
)
@pytest.mark.parametrize("sign_v2", [False, True])
def test_it_refuses_a_token_by_age(age_ms: int, verdict: Any, sign_v2: bool) -> None:
    token = tokens(sign_v2=sign_v2).sign("shop", 3, 42, NOW)
    seen = tokens()

    assert seen.verify(token, "shop", NOW) == CLAIMS
    for verifier in (tokens(), seen):
        assert verifier.verify(token, "shop", NOW + age_ms) == verdict


@pytest.mark.req("ENG-092")
def test_it_finds_refusals_in_the_published_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each token has its own fault and all later ones; the earliest is named."""
    late = {"room": "other", "gen": 3, "ticket": 42, "iat": 0}
    ill_typed = {**late, "ticket": "42"}
    wrong_key = b"k" * 40

    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return hmac.compare_digest(one, other)

    monkeypatch.setattr("app.domain.tokens.compare_digest", compare)

    def cause(token: str) -> Claims | Cause:
        return tokens().verify(token, "shop", NOW)

    assert cause(forge(ill_typed, wrong_key) + ".x") is Cause.MALFORMED
    assert cause("A" * 5000 + "." + "A" * 43) is Cause.MALFORMED
    assert cause(forge({**ill_typed, "kid": "00000000"}, wrong_key)) is Cause.UNKNOWN_KID
    assert compared == []
    assert cause(forge({**ill_typed, "kid": kid_of(SECRET)}, wrong_key)) is Cause.BAD_SIGNATURE
    assert len(compared) == 1, "by the one comparison whose time tells nothing"
    assert cause(forge(ill_typed, wrong_key)) is Cause.BAD_SIGNATURE
    assert cause(forge(b"no json", wrong_key)) is Cause.BAD_SIGNATURE
    assert cause(forge(ill_typed)) is Cause.MALFORMED
    assert cause(forge(late)) is Cause.WRONG_ROOM
    assert cause(forge({**late, "room": "shop"})) is Cause.EXPIRED
    assert cause(forge({**late, "room": "shop", "iat": NOW * 2})) is Cause.FUTURE


@pytest.mark.parametrize(("token_age", "cookie_age", "half"), [(86400, 86400, 43_200_000), (86400, 600, 300_000)])
def test_it_renews_after_half_of_the_smaller_age(token_age: int, cookie_age: int, half: int) -> None:
    signer = VisitorTokens(Keyring(SECRET), max_age_sec=token_age, cookie_max_age_sec=cookie_age)

    assert signer.refresh_after_ms == half
    assert not signer.is_due(CLAIMS, NOW + half - 1)
    assert signer.is_due(CLAIMS, NOW + half)


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: b64(raw) + "." + b64(raw[:32])))
def test_it_answers_any_text_with_a_cause(text: str) -> None:
    assert isinstance(tokens().verify(text, "shop", NOW), Cause)


@given(st.integers(1, 0xFFFF_FFFF), st.integers(1, 0xFFFF_FFFF), st.booleans())
def test_it_reads_back_what_it_wrote(generation: int, ticket: int, sign_v2: bool) -> None:
    both = tokens(sign_v2=sign_v2)

    assert both.verify(both.sign("a_-Z", generation, ticket, NOW), "a_-Z", NOW) == Claims(
        "a_-Z", generation, ticket, "", NOW
    )


@pytest.mark.parametrize("sign_v2", [False, True])
def test_it_opens_tokens_of_other_purposes(sign_v2: bool) -> None:
    signed = SignedTokens(Keyring(SECRET, sign_v2=sign_v2), Purpose.SESSION)

    opened = signed.open(signed.sign({"scope": "session", "name": 'ä/"'}))

    assert isinstance(opened, dict)
    assert opened["scope"] == "session"
    assert opened["name"] == 'ä/"'


@pytest.mark.req("ENG-289")
def test_it_refuses_a_token_of_a_wrong_hour_by_its_age_alone() -> None:
    two_hours = 2 * 3_600_000
    ahead, behind = (tokens().sign("shop", 3, 42, NOW + step) for step in (two_hours, -two_hours))

    assert tokens().verify(ahead, "shop", NOW) == Cause.FUTURE
    assert isinstance(tokens().verify(ahead, "shop", NOW + two_hours), Claims)
    assert isinstance(tokens().verify(behind, "shop", NOW), Claims)
    assert tokens().verify(behind, "shop", NOW - two_hours + DAY_MS + 1000) == Cause.EXPIRED
