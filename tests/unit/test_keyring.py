"""Keys that follow from the secrets."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable

import pytest

from app.domain.keyring import Keyring, MacKey, Purpose, hkdf, kid_of

SECRET = "a-secret-of-more-than-32-characters!"
OTHER = "another-secret-with-enough-characters"


def slow_hkdf(secret: str, info: bytes, length: int) -> bytes:
    """RFC 5869 written out, independent of the code under test."""
    prk = hmac.new(b"\0" * 32, secret.encode(), hashlib.sha256).digest()
    return hmac.new(prk, info + b"\x01", hashlib.sha256).digest()[:length]


@pytest.mark.parametrize("key", [b"k", b"k" * 63, b"k" * 64, b"k" * 65, b"k" * 200])
@pytest.mark.parametrize("message", [b"", b"m", b"m" * 1000])
def test_it_signs_as_hmac_does(key: bytes, message: bytes) -> None:
    assert MacKey(key).sign(message) == hmac.digest(key, message, "sha256")


def test_it_signs_the_same_message_twice_alike() -> None:
    key = MacKey(b"key")

    assert key.sign(b"one") != key.sign(b"two")
    assert key.sign(b"one") == hmac.digest(b"key", b"one", "sha256")


@pytest.mark.req("ENG-083", "ENG-084", "CFG-145", "CFG-147")
def test_it_derives_keys_as_rfc_5869_says() -> None:
    assert hkdf(SECRET.encode(), b"qm:visitor", 32) == slow_hkdf(SECRET, b"qm:visitor", 32)
    assert kid_of(SECRET) == slow_hkdf(SECRET, b"qm:kid", 4).hex()
    assert len(kid_of(SECRET)) == 8


@pytest.mark.parametrize("length", [0, 33])
def test_it_refuses_a_length_that_one_block_does_not_give(length: int) -> None:
    with pytest.raises(ValueError, match="length"):
        hkdf(b"x", b"i", length)


@pytest.mark.req("ENG-083", "CFG-145")
def test_it_has_a_key_of_its_own_for_each_purpose() -> None:
    ring = Keyring(SECRET, sign_v2=True)

    signatures = {ring.signer(purpose).sign(b"m") for purpose in Purpose}

    assert {str(purpose) for purpose in Purpose} == {"visitor", "monitor", "session", "operator"}
    assert len(signatures) == len(Purpose)
    for purpose in Purpose:
        expected = hmac.digest(slow_hkdf(SECRET, f"qm:{purpose}".encode(), 32), b"m", "sha256")
        assert ring.signer(purpose).sign(b"m") == expected


def test_it_signs_with_the_secret_itself_in_legacy_form() -> None:
    assert Keyring(SECRET).signer(Purpose.VISITOR).sign(b"m") == hmac.digest(SECRET.encode(), b"m", "sha256")


def test_it_knows_both_secrets_by_kid_and_no_other() -> None:
    ring = Keyring(SECRET, OTHER)

    assert ring.kids == (kid_of(SECRET), kid_of(OTHER))
    assert ring.v2_key(kid_of(OTHER), Purpose.VISITOR) is not None
    assert ring.v2_key("00000000", Purpose.VISITOR) is None
    assert len(ring.legacy_keys()) == 2


def test_it_takes_an_equal_previous_secret_for_none() -> None:
    assert Keyring(SECRET, SECRET).kids == (kid_of(SECRET),)


@pytest.mark.parametrize("show", [repr, str])
def test_it_shows_no_secret_in_its_repr(show: Callable[[object], str]) -> None:
    ring = Keyring(SECRET, OTHER)

    text = show(ring) + show(ring.signer(Purpose.VISITOR))

    assert SECRET not in text
    assert OTHER not in text
