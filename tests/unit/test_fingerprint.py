"""Digests of what a request brings."""

from __future__ import annotations

import ipaddress
from hashlib import sha256

import pytest

from app.domain.fingerprint import Digester, clean_agent, network_of, normal_address, normal_chain

SALT = bytes(range(16))
DIGESTER = Digester(SALT)


def packed(text: str) -> bytes:
    address = ipaddress.ip_address(text)
    return bytes(10) + b"\xff\xff" + address.packed if address.version == 4 else address.packed


def digest(purpose: bytes, value: bytes, length: int = 16) -> bytes:
    return sha256(SALT + purpose + b"\0" + value).digest()[:length]


def test_it_digests_as_the_layout_says() -> None:
    assert DIGESTER.cookie("value") == digest(b"cookie", b"value")
    assert DIGESTER.door("key") == digest(b"door", b"key")
    assert DIGESTER.strict("10.0.0.1", "", b"UA") == digest(b"strict", b"10.0.0.1\0\0UA")
    assert DIGESTER.loose(packed("10.0.0.1"), b"UA") == digest(b"loose", bytes([10, 0, 0, 1]) + b"\0UA")
    assert DIGESTER.address(packed("10.0.0.1")) == digest(b"addr", bytes([10, 0, 0, 1]), 8)


def test_it_gives_other_digests_for_another_salt() -> None:
    assert Digester(bytes(16)).cookie("value") != DIGESTER.cookie("value")


@pytest.mark.parametrize(
    ("peer", "chain", "agent"),
    [("10.0.0.2", "a", b"UA"), ("10.0.0.1", "b", b"UA"), ("10.0.0.1", "a", b"ua"), ("10.0.0.1", "", b"UA")],
)
def test_it_tells_requests_apart_by_peer_chain_and_agent(peer: str, chain: str, agent: bytes) -> None:
    assert DIGESTER.strict(peer, chain, agent) != DIGESTER.strict("10.0.0.1", "a", b"UA")


@pytest.mark.req("ENG-106")
@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:10.0.0.7", "10.0.0.7", True),
        ("10.0.0.7", "10.0.0.8", False),
    ],
)
def test_it_counts_a_mapped_address_as_ipv4_and_ipv6_by_its_64(one: str, other: str, same: bool) -> None:
    a, b = packed(one), packed(other)

    assert (network_of(a) == network_of(b)) is same
    assert (DIGESTER.address(a) == DIGESTER.address(b)) is same
    assert (DIGESTER.loose(a, b"UA") == DIGESTER.loose(b, b"UA")) is same
    assert (DIGESTER.strict(one, "", b"UA") == DIGESTER.strict(other, "", b"UA")) is same
    assert (DIGESTER.strict("10.1.1.1", one, b"UA") == DIGESTER.strict("10.1.1.1", other, b"UA")) is same


@pytest.mark.parametrize("text", ["unix:", "", "not:an:address", "::1%eth0", "x" * 300, "é:"])
def test_it_takes_any_text_for_an_address(text: str) -> None:
    assert isinstance(normal_address(text), bytes)


def test_it_reads_a_chain_entry_by_entry() -> None:
    assert normal_chain("10.0.0.1, 10.0.0.2") == normal_chain("10.0.0.1,10.0.0.2")
    assert normal_chain("2001:db8::1, 10.0.0.2") == normal_chain("2001:db8::2,10.0.0.2")
    assert normal_chain("") == b""


@pytest.mark.parametrize(
    ("header", "agent"),
    [
        (b"", b""),
        (b"Mozilla/5.0 (X11)", b"Mozilla/5.0 (X11)"),
        (b"a\tb\x7fc", b"abc"),
        (b"x" * 600, b"x" * 512),
        ("é".encode(), "é".encode()),
        (b"a\xffb", "a�b".encode()),
        (("é" * 600).encode(), ("é" * 512).encode()),
    ],
)
def test_it_cleans_the_user_agent(header: bytes, agent: bytes) -> None:
    assert clean_agent(header) == agent


@pytest.mark.req("ENG-295")
def test_it_tells_every_56_of_a_48_apart_and_knows_the_48_of_each_64() -> None:
    places = {net: DIGESTER.place(packed(f"2001:db8:5:{net:x}01::1")) for net in range(256)}

    assert len({address[:4] for address, _ in places.values()}) == 1
    assert sorted(net for _, net in places.values()) == list(range(1, 257))
    assert len({address for address, _ in places.values()}) == 256
    assert DIGESTER.place(packed("2001:db8:5:0702::9"))[1] == places[7][1]
    assert DIGESTER.place(packed("2001:db8:6:701::1"))[0][:4] != places[7][0][:4]
    assert DIGESTER.place(packed("::ffff:10.0.0.1")) == (digest(b"addr", bytes([10, 0, 0, 1]), 8), 0)
