"""Each kind of signed payload at each door, in both forms: only its own door opens."""

from __future__ import annotations

import base64
import hmac
import json
import re
from typing import Any

import pytest

from app.core.secret import Secret
from app.domain.from_tokens import FromTokens
from app.domain.keyring import Keyring, Purpose, hkdf
from app.domain.monitor_tokens import MonitorTokens
from app.domain.operators import MonitorLink
from app.domain.principal import OWNER_BY_KEY
from app.domain.tokens import Cause, Claims, SignedTokens, VisitorTokens
from app.services.holder_proof import HolderProofs
from app.services.sessions import Bad, Sessions

SECRET = "a-secret-of-more-than-32-characters!"
PREVIOUS = "another-secret-with-enough-characters"
NOW = 1_788_253_200_000
HANDLE = "A" * 22
ADMIN_KEY = Secret("admin-key-of-this-deployment")
FORMS = [False, True]


class NobodySignedOut:
    """The part of the admin store that reading a session asks."""

    async def revoked_sessions(self, session_ids: list[str]) -> set[str]:
        return set()


def sessions(keyring: Keyring) -> Sessions:
    return Sessions(
        keyring=keyring,
        proofs=HolderProofs(keyring, ADMIN_KEY),
        store=NobodySignedOut(),  # type: ignore[arg-type]
        people=None,  # type: ignore[arg-type] - ADMIN_KEY has no record
        now=lambda: NOW,
    )


async def kinds(keyring: Keyring) -> dict[str, tuple[Purpose, str]]:
    """A well made token of every kind, as its own maker makes it."""
    visitor = SignedTokens(keyring, Purpose.VISITOR)
    link = MonitorLink("m_7c1e0b52", "", NOW, "ADMIN_KEY", None, NOW + 1000)
    return {
        "ticket": (
            Purpose.VISITOR,
            VisitorTokens(keyring, max_age_sec=86400, cookie_max_age_sec=86400).sign("shop", 3, 42, NOW),
        ),
        "handle": (Purpose.VISITOR, visitor.sign({"room": "shop", "gen": 3, "handle": HANDLE, "iat": NOW})),
        "from": (Purpose.VISITOR, FromTokens(keyring).sign("shop", bytes(16), NOW)),
        "monitor": (Purpose.MONITOR, MonitorTokens(keyring).sign(link, NOW)),
        "session": (Purpose.SESSION, (await sessions(keyring).begin(OWNER_BY_KEY))[0]),
    }


async def visitor_door(keyring: Keyring, token: str) -> str:
    """What the visitor routes take a token for."""
    verdict = VisitorTokens(keyring, max_age_sec=86400, cookie_max_age_sec=86400).verify(token, "shop", NOW)
    if isinstance(verdict, Claims):
        return "handle" if verdict.handle else "ticket"
    return verdict.value


async def console_door(keyring: Keyring, token: str) -> str:
    """What the console takes a session cookie for."""
    found = await sessions(keyring).find([token])
    return found.name.lower() if isinstance(found, Bad) else "session"


async def monitor_door(keyring: Keyring, token: str) -> str:
    """What is taken for a monitor link."""
    return "monitor" if MonitorTokens(keyring).read(token, NOW) == "m_7c1e0b52" else "refused"


async def from_door(keyring: Keyring, token: str) -> str:
    """What a connector's visitor may bring along."""
    return "from" if FromTokens(keyring).read(token, "shop", NOW) else "refused"


DOORS: dict[str, tuple[Any, Purpose, set[str]]] = {
    "visitor": (visitor_door, Purpose.VISITOR, {"ticket", "handle"}),
    "console": (console_door, Purpose.SESSION, {"session"}),
    "monitor": (monitor_door, Purpose.MONITOR, {"monitor"}),
    "from": (from_door, Purpose.VISITOR, {"from"}),
}


@pytest.mark.req("ENG-086", "CFG-149", "ENG-292")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", ["ticket", "handle", "from", "monitor", "session"])
@pytest.mark.parametrize("sign_v2", FORMS)
async def test_each_kind_of_token_opens_its_own_door_only(kind: str, door: str, sign_v2: bool) -> None:
    """Legacy by what the payload says, v2 by the key of its purpose too; whether the present or the previous key."""
    keyring = Keyring(SECRET, sign_v2=sign_v2)
    purpose, token = (await kinds(keyring))[kind]
    enter, door_purpose, own = DOORS[door]

    for verifier in (keyring, Keyring(PREVIOUS, SECRET), Keyring(SECRET, sign_v2=not sign_v2)):
        taken_for = await enter(verifier, token)

        if kind in own:
            assert taken_for == kind
        elif door != "visitor":
            assert taken_for == ("forged" if door == "console" else "refused")
        elif sign_v2 and purpose is not door_purpose:
            assert taken_for == Cause.BAD_SIGNATURE
        else:
            assert taken_for == Cause.MALFORMED


@pytest.mark.req("ENG-086", "CFG-149")
@pytest.mark.parametrize("signer", list(Purpose))
@pytest.mark.parametrize("verifier", list(Purpose))
def test_a_v2_signature_of_one_purpose_verifies_for_no_other(signer: Purpose, verifier: Purpose) -> None:
    keyring = Keyring(SECRET, sign_v2=True)
    token = SignedTokens(keyring, signer).sign({"scope": "x"})

    opened = SignedTokens(keyring, verifier).open(token)

    assert (opened == Cause.BAD_SIGNATURE) is (signer is not verifier)
    legacy = SignedTokens(Keyring(SECRET), signer).sign({"scope": "x"})
    assert SignedTokens(keyring, verifier).open(legacy) == {"scope": "x"}, "a legacy one says nothing of its purpose"


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@pytest.mark.req("CFG-144", "CFG-146")
@pytest.mark.parametrize("sign_v2", FORMS)
async def test_every_token_is_signed_over_its_body_as_sent_with_a_key_that_comes_from_the_secret(
    sign_v2: bool,
) -> None:
    for secret in (SECRET, PREVIOUS):
        for purpose, token in (await kinds(Keyring(secret, sign_v2=sign_v2))).values():
            body, _, mac = token.partition(".")
            key = hkdf(secret.encode(), f"qm:{purpose.value}".encode(), 32) if sign_v2 else secret.encode()
            payload = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))

            assert isinstance(payload, dict)
            assert re.fullmatch(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{43}", token)
            assert mac == b64(hmac.digest(key, body.encode(), "sha256"))
            assert ("kid" in payload) is sign_v2
    assert {purpose.value for purpose in Purpose} == {"visitor", "monitor", "session", "operator"}


@pytest.mark.req("CFG-146")
@pytest.mark.parametrize("sign_v2", FORMS)
@pytest.mark.parametrize("purpose", list(Purpose))
def test_each_purpose_is_tried_under_the_secret_before_too(purpose: Purpose, sign_v2: bool) -> None:
    token = SignedTokens(Keyring(PREVIOUS, sign_v2=sign_v2), purpose).sign({"scope": "x"})

    for form in FORMS:
        opened = SignedTokens(Keyring(SECRET, PREVIOUS, sign_v2=form), purpose).open(token)
        assert isinstance(opened, dict)
        assert opened["scope"] == "x"
    assert isinstance(SignedTokens(Keyring(SECRET), purpose).open(token), Cause)


@pytest.mark.parametrize("sign_v2", FORMS)
@pytest.mark.parametrize(
    "change",
    [
        {"scope": "monitor"}, {"scope": None}, {"scope": ["session"]}, {"sid": None}, {"sid": 5}, {"sid": ""},
        {"who": "x"}, {"bind": None}, {"bind": 1}, {"iat": "1"}, {"exp": None}, {"exp": True}, {"ticket": 1},
        {"room": "shop"}, {"handle": HANDLE},
    ],
)  # fmt: skip
async def test_the_console_takes_no_payload_with_a_missing_foreign_or_ill_typed_member(
    change: dict[str, Any], sign_v2: bool
) -> None:
    keyring = Keyring(SECRET, sign_v2=sign_v2)
    signed = SignedTokens(keyring, Purpose.SESSION)
    payload = signed.open((await sessions(keyring).begin(OWNER_BY_KEY))[0])
    assert isinstance(payload, dict)
    assert await console_door(keyring, signed.sign(payload)) == "session"
    for name, value in change.items():
        without = {member: payload[member] for member in payload if member != name}
        changed = without if value is None and name in payload else {**payload, name: value}

        assert await console_door(keyring, signed.sign(changed)) == "forged"


@pytest.mark.req("CFG-158")
@pytest.mark.parametrize("sign_v2", FORMS)
@pytest.mark.parametrize(
    "change",
    [
        {"scope": "session"}, {"scope": None}, {"link": None}, {"link": 5}, {"link": "m_7C1E0B52"}, {"link": ""},
        {"iat": None}, {"iat": "1"}, {"iat": NOW + 60_001}, {"exp": None}, {"exp": True}, {"exp": NOW}, {"ticket": 1},
        {"room": "shop"}, {"handle": HANDLE},
    ],
)  # fmt: skip
async def test_no_link_opens_by_a_payload_with_a_missing_foreign_or_ill_typed_member(
    change: dict[str, Any], sign_v2: bool
) -> None:
    keyring = Keyring(SECRET, sign_v2=sign_v2)
    signed = SignedTokens(keyring, Purpose.MONITOR)
    payload = signed.open((await kinds(keyring))["monitor"][1])
    assert isinstance(payload, dict)
    for name, value in change.items():
        without = {member: payload[member] for member in payload if member != name}
        changed = without if value is None else {**payload, name: value}

        assert await monitor_door(keyring, signed.sign(changed)) == "refused"
