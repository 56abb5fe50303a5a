"""Who is the visitor: the whole rule as one table."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from app.domain.client_address import ClientResolver, Note, TrustPolicy, is_host, resolve_client
from app.domain.net_ranges import RangeSet, address_text, budget_key, pack_address, parse_ranges

LB = "10.0.0.5"  # declared
OUT = "203.0.113.9"  # not declared
ONE = TrustPolicy.of(1, parse_ranges("10.0.0.0/24, 2001:db8:ff::/48"))
TWO = TrustPolicy.of(2, parse_ranges("10.0.0.0/24"))
THREE = TrustPolicy.of(3, parse_ranges("10.0.0.0/24"))
ONLY_HOPS = TrustPolicy.of(1, ())
ONLY_IPS = TrustPolicy.of(0, parse_ranges("10.0.0.0/24"))
NONE = TrustPolicy()
ALL6 = TrustPolicy.of(1, parse_ranges("::ffff:10.0.0.0/120"))

XFF = "X-Forwarded-For"
ADDRESSES = [
    # policy, peer, X-Forwarded-For (None: not sent), address
    (NONE, OUT, None, OUT),
    (NONE, OUT, "1.2.3.4", OUT),
    (NONE, LB, "1.2.3.4", LB),
    (ONLY_HOPS, LB, "1.2.3.4", LB),
    (ONLY_HOPS, OUT, "1.2.3.4", OUT),
    (ONLY_IPS, LB, "1.2.3.4", LB),
    (ONE, OUT, "1.2.3.4", OUT),
    (ONE, OUT, "10.0.0.5", OUT),
    (ONE, "10.0.1.0", "1.2.3.4", "10.0.1.0"),
    (ONE, "10.0.0.0", "1.2.3.4", "1.2.3.4"),
    (ONE, "10.0.0.255", "1.2.3.4", "1.2.3.4"),
    (ONE, LB, None, LB),
    (ONE, LB, "", LB),
    (ONE, LB, " ", LB),
    (ONE, LB, "1.2.3.4", "1.2.3.4"),
    (ONE, LB, "  1.2.3.4\t", "1.2.3.4"),
    (ONE, LB, "9.9.9.9, 1.2.3.4", "1.2.3.4"),
    (ONE, LB, "9.9.9.9,1.2.3.4", "1.2.3.4"),
    (ONE, LB, "9.9.9.9, 8.8.8.8, 1.2.3.4", "1.2.3.4"),
    (ONE, LB, "1.2.3.4,", LB),
    (ONE, LB, ",1.2.3.4", "1.2.3.4"),
    (ONE, LB, "1.2.3.4:5678", "1.2.3.4"),
    (ONE, LB, "1.2.3.4:", LB),
    (ONE, LB, "1.2.3.4:x", LB),
    (ONE, LB, "1.2.3.4:123456", LB),
    (ONE, LB, "1.2.3", LB),
    (ONE, LB, "1.2.3.4.5", LB),
    (ONE, LB, "1.2.3.256", LB),
    (ONE, LB, "01.2.3.4", LB),
    (ONE, LB, "0x1.2.3.4", LB),
    (ONE, LB, "16909060", LB),
    (ONE, LB, "1.2.3.4/24", LB),
    (ONE, LB, "unknown", LB),
    (ONE, LB, "_hidden", LB),
    (ONE, LB, "for=1.2.3.4", LB),
    (ONE, LB, "localhost", LB),
    (ONE, LB, "1.2.3.4\x00", LB),
    (ONE, LB, "1.2.3.4;9.9.9.9", LB),
    (ONE, LB, "１.2.3.4", LB),
    (ONE, LB, "2001:db8::1", "2001:db8::1"),
    (ONE, LB, "2001:DB8:0:0:0:0:0:1", "2001:db8::1"),
    (ONE, LB, "[2001:db8::1]", "2001:db8::1"),
    (ONE, LB, "[2001:db8::1]:443", "2001:db8::1"),
    (ONE, LB, "[2001:db8::1", LB),
    (ONE, LB, "2001:db8::1]", LB),
    (ONE, LB, "[2001:db8::1]x", LB),
    (ONE, LB, "[1.2.3.4]", "1.2.3.4"),
    (ONE, LB, "2001:db8::1%eth0", LB),
    (ONE, LB, "2001:db8::g", LB),
    (ONE, LB, ":::", LB),
    (ONE, LB, "::ffff:1.2.3.4", "1.2.3.4"),
    (ONE, LB, "[::ffff:1.2.3.4]:80", "1.2.3.4"),
    (ONE, LB, "::ffff:0102:0304", "1.2.3.4"),
    (ONE, "::ffff:10.0.0.5", "1.2.3.4", "1.2.3.4"),
    (ONE, "::ffff:203.0.113.9", "1.2.3.4", OUT),
    (ONE, "2001:db8:ff::7", "1.2.3.4", "1.2.3.4"),
    (ONE, "2001:db8:fe::7", "1.2.3.4", "2001:db8:fe::7"),
    (ALL6, LB, "1.2.3.4", "1.2.3.4"),
    (ALL6, "10.0.1.5", "1.2.3.4", "10.0.1.5"),
    (TWO, LB, "1.2.3.4, 172.16.0.1", "1.2.3.4"),
    (TWO, LB, "9.9.9.9, 1.2.3.4, 172.16.0.1", "1.2.3.4"),
    (TWO, LB, "1.2.3.4", "1.2.3.4"),
    (TWO, LB, "unknown, 172.16.0.1", LB),
    (TWO, LB, "1.2.3.4, unknown", "1.2.3.4"),
    (THREE, LB, "1.2.3.4, 172.16.0.1", "1.2.3.4"),
    (THREE, LB, "9.9.9.9, 1.2.3.4, 5.5.5.5, 6.6.6.6", "1.2.3.4"),
    (NONE, "2001:db8::1", None, "2001:db8::1"),
    (NONE, "fe80::1%eth0", None, "fe80::1"),
    (NONE, "::ffff:192.0.2.1", None, "192.0.2.1"),
    (NONE, "", None, "0.0.0.0"),
]  # fmt: skip


def client(policy: TrustPolicy, peer: str, headers: dict[str, str], **kw: bool):
    sent = {name.lower().encode(): value.encode("utf-8") for name, value in headers.items()}
    direct = resolve_client(peer, sent.get, policy, **kw)
    resolver = ClientResolver(policy)
    for _ in range(2):
        assert resolver.resolve(peer, sent, declared=resolver.is_declared(peer), **kw) == direct
    return direct


@pytest.mark.req(
    "VIS-012",
    "VIS-017",
    "CFG-100",
    "CFG-101",
    "CFG-102",
    "CFG-103",
    "CFG-106",
    "VIS-011",
    "VIS-013",
    "VIS-016",
    "CFG-098",
    "CFG-099",
)
@pytest.mark.parametrize(("policy", "peer", "chain", "address"), ADDRESSES)
def test_it_finds_the_visitor(policy: TrustPolicy, peer: str, chain: str | None, address: str) -> None:
    headers = {"Host": "q.test", "CF-Connecting-IP": "6.6.6.6", "X-Real-IP": "6.6.6.6", "Forwarded": "for=6.6.6.6"}
    headers["True-Client-IP"] = "6.6.6.6"
    if chain is not None:
        headers[XFF] = chain

    found = client(policy, peer, headers)

    assert found.address == address
    assert found.packed == pack_address(address)
    assert found.declared is policy.declares(pack_address(peer.partition("%")[0]) or b"")
    assert found.declared or found.chain == ""


@pytest.mark.req("CFG-103", "VIS-016", "CFG-104")
@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("1.2.3.4", b"\1\2\3\4"),
        ("::ffff:1.2.3.4", b"\1\2\3\4"),
        ("2001:db8:1:2:3:4:5:6", b"\x20\1\x0d\xb8\0\1\0\2"),
        ("2001:db8:1:2::", b"\x20\1\x0d\xb8\0\1\0\2"),
        ("::1.2.3.4", bytes(8)),
    ],
)
def test_it_counts_ipv6_by_its_64(address: str, key: bytes) -> None:
    assert client(NONE, address, {"Host": "q.test"}).key == key


@pytest.mark.req("VIS-018", "CFG-106")
@pytest.mark.parametrize(
    ("policy", "peer", "proto", "outer", "scheme", "host"),
    [
        (NONE, LB, "https", "evil.test", "http", "q.test"),
        (ONLY_HOPS, LB, "https", "evil.test", "http", "q.test"),
        (ONE, OUT, "https", "evil.test", "http", "q.test"),
        (ONE, LB, "https", "Shop.test:444", "https", "shop.test:444"),
        (ONE, LB, "HTTPS", "[2001:db8::1]:444", "https", "[2001:db8::1]:444"),
        (ONE, LB, "http", "a.test", "http", "a.test"),
        (ONE, LB, "ws", "a test", "http", "q.test"),
        (ONE, LB, "", "", "http", "q.test"),
        (ONE, LB, "http, https", "a.test, b.test", "https", "b.test"),
        (TWO, LB, "https, http", "a.test, b.test", "https", "a.test"),
        (TWO, LB, "https", "a.test", "https", "a.test"),
        (TWO, LB, "http, https, http", "x.test, a.test, b.test", "https", "a.test"),
        (ONE, LB, "https", "me@a.test", "https", "q.test"),
        (ONE, LB, "https", "a.test/x", "https", "q.test"),
        (ONE, LB, "https,", "a.test,", "http", "q.test"),
    ],
)
def test_it_finds_scheme_and_host(
    policy: TrustPolicy, peer: str, proto: str, outer: str, scheme: str, host: str
) -> None:
    found = client(policy, peer, {"Host": "Q.test", "X-Forwarded-Proto": proto, "X-Forwarded-Host": outer})

    assert (found.scheme, found.host) == (scheme, host)


EDGE = TrustPolicy.of(0, (), ["old-value-of-the-edge", "new-value-of-the-edge"])
BOTH = TrustPolicy.of(1, parse_ranges("10.0.0.0/24"), ["old-value-of-the-edge"])
OLD, NEW = "old-value-of-the-edge", "new-value-of-the-edge"
CF = "CF-Connecting-IP"
THROUGH_THE_EDGE = [
    # policy, peer, headers, address, scheme, host, chain, note
    (EDGE, OUT, {"X-QM-Edge": OLD, CF: "1.2.3.4"}, "1.2.3.4", "http", "q.test", "1.2.3.4", Note.NONE),
    (EDGE, OUT, {"X-QM-Edge": NEW, CF: "1.2.3.4"}, "1.2.3.4", "http", "q.test", "1.2.3.4", Note.NONE),
    (EDGE, OUT, {"X-QM-Edge": NEW, CF: "2001:DB8::1"}, "2001:db8::1", "http", "q.test", "2001:db8::1", Note.NONE),
    (EDGE, OUT, {"X-QM-Edge": NEW, CF: "::ffff:1.2.3.4"}, "1.2.3.4", "http", "q.test", "1.2.3.4", Note.NONE),
    (EDGE, OUT, {"X-QM-Edge": NEW, CF: "1.2.3.4", XFF: "9.9.9.9"}, "1.2.3.4", "http", "q.test", "1.2.3.4", Note.NONE),
    (EDGE, OUT, {"X-QM-Edge": NEW, XFF: "9.9.9.9"}, OUT, "http", "q.test", "", Note.NO_EDGE_ADDRESS),
    (EDGE, OUT, {"X-QM-Edge": NEW}, OUT, "http", "q.test", "", Note.NO_EDGE_ADDRESS),
    (EDGE, OUT, {"X-QM-Edge": NEW, CF: "nobody"}, OUT, "http", "q.test", "", Note.NO_EDGE_ADDRESS),
    (EDGE, OUT, {"X-QM-Edge": NEW, CF: "1.2.3.4, 9.9.9.9"}, OUT, "http", "q.test", "", Note.NO_EDGE_ADDRESS),
    (EDGE, OUT, {"X-QM-Edge": NEW, CF: "1.2.3.4", "X-Forwarded-Proto": "https"}, "1.2.3.4", "https", "q.test",
     "1.2.3.4", Note.NONE),
    (EDGE, OUT, {"X-QM-Edge": NEW, CF: "1.2.3.4", "X-Forwarded-Proto": "http, https"}, "1.2.3.4", "https", "q.test",
     "1.2.3.4", Note.NONE),
    (EDGE, OUT, {"X-QM-Edge": NEW, CF: "1.2.3.4", "X-Forwarded-Proto": "ws"}, "1.2.3.4", "http", "q.test",
     "1.2.3.4", Note.NONE),
    (EDGE, OUT, {"X-QM-Edge": NEW, CF: "1.2.3.4", "X-Forwarded-Host": "evil.test"}, "1.2.3.4", "http", "q.test",
     "1.2.3.4", Note.NONE),
    (EDGE, OUT, {CF: "1.2.3.4", XFF: "9.9.9.9", "X-Forwarded-Proto": "https"}, OUT, "http", "q.test", "",
     Note.NOT_BY_EDGE),
    (EDGE, OUT, {"X-QM-Edge": "", CF: "1.2.3.4"}, OUT, "http", "q.test", "", Note.NOT_BY_EDGE),
    (EDGE, OUT, {"X-QM-Edge": OLD[:-1], CF: "1.2.3.4"}, OUT, "http", "q.test", "", Note.NOT_BY_EDGE),
    (EDGE, OUT, {"X-QM-Edge": OLD.upper(), CF: "1.2.3.4"}, OUT, "http", "q.test", "", Note.NOT_BY_EDGE),
    (EDGE, OUT, {"X-QM-Edge": f"{OLD}, {NEW}", CF: "1.2.3.4"}, OUT, "http", "q.test", "", Note.NOT_BY_EDGE),
    (EDGE, OUT, {"X-QM-Edge": f"{OLD}, {OLD}", CF: "1.2.3.4"}, OUT, "http", "q.test", "", Note.NOT_BY_EDGE),
    (EDGE, OUT, {"X-QM-Edge": f"{OLD},{NEW}", CF: "1.2.3.4"}, OUT, "http", "q.test", "", Note.NOT_BY_EDGE),
    (BOTH, LB, {XFF: "1.2.3.4", "X-Forwarded-Proto": "https"}, LB, "http", "q.test", "", Note.NOT_BY_EDGE),
    (BOTH, LB, {"X-QM-Edge": OLD, XFF: "9.9.9.9", CF: "1.2.3.4"}, "1.2.3.4", "http", "q.test", "1.2.3.4", Note.NONE),
    (BOTH, LB, {"X-QM-Edge": NEW, CF: "1.2.3.4"}, LB, "http", "q.test", "", Note.NOT_BY_EDGE),
    (NONE, OUT, {"X-QM-Edge": OLD, CF: "1.2.3.4"}, OUT, "http", "q.test", "", Note.FORWARDED),
]  # fmt: skip


@pytest.mark.req("VIS-031", "VIS-035", "CFG-128", "CFG-134")
@pytest.mark.parametrize(("policy", "peer", "headers", "address", "scheme", "host", "chain", "note"), THROUGH_THE_EDGE)
def test_it_finds_who_came_through_the_edge(
    policy: TrustPolicy,
    peer: str,
    headers: dict[str, str],
    address: str,
    scheme: str,
    host: str,
    chain: str,
    note: Note,
) -> None:
    found = client(policy, peer, {"Host": "Q.test", **headers})

    assert (found.address, found.scheme, found.host, found.chain) == (address, scheme, host, chain)
    assert found.note == note
    assert found.declared is (chain != "")
    assert found.peer == peer


@pytest.mark.parametrize(
    ("policy", "peer", "headers", "note"),
    [
        (NONE, OUT, {}, Note.NONE),
        (NONE, OUT, {XFF: "1.2.3.4"}, Note.FORWARDED),
        (NONE, OUT, {XFF: ""}, Note.FORWARDED),
        (NONE, OUT, {"Forwarded": "for=1.2.3.4"}, Note.FORWARDED),
        (NONE, OUT, {CF: "1.2.3.4"}, Note.FORWARDED),
        (NONE, OUT, {"X-Real-IP": "1.2.3.4"}, Note.FORWARDED),
        (NONE, OUT, {"True-Client-IP": "1.2.3.4"}, Note.FORWARDED),
        (NONE, OUT, {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "a.test", "Via": "1.1 a"}, Note.NONE),
        (ONLY_HOPS, LB, {XFF: "1.2.3.4"}, Note.FORWARDED),
        (ONE, OUT, {XFF: "1.2.3.4"}, Note.FORWARDED),
        (ONE, LB, {XFF: "1.2.3.4"}, Note.NONE),
        (ONE, LB, {CF: "1.2.3.4"}, Note.NONE),
        (TWO, LB, {XFF: "1.2.3.4"}, Note.SHORT_CHAIN),
        (TWO, LB, {XFF: "1.2.3.4, 5.6.7.8"}, Note.NONE),
        (TWO, LB, {}, Note.NONE),
        (THREE, LB, {XFF: "1.2.3.4, 5.6.7.8"}, Note.SHORT_CHAIN),
        (TWO, OUT, {XFF: "1.2.3.4"}, Note.FORWARDED),
    ],
)
def test_it_notes_what_is_odd_about_a_request(
    policy: TrustPolicy, peer: str, headers: dict[str, str], note: Note
) -> None:
    assert client(policy, peer, {"Host": "q.test", **headers}).note == note


@pytest.mark.req("VIS-018")
def test_it_takes_the_scheme_of_a_tls_socket() -> None:
    assert client(NONE, OUT, {"Host": "q.test"}, tls=True).scheme == "https"


def test_it_keeps_the_chain_of_a_declared_peer() -> None:
    assert client(ONE, LB, {"Host": "q", XFF: "9.9.9.9,  1.2.3.4"}).chain == "9.9.9.9,1.2.3.4"


def test_it_resolves_very_long_chains_without_remembering_them() -> None:
    chain = ", ".join(["9.9.9.9"] * 500 + ["1.2.3.4"])

    assert client(ONE, LB, {"Host": "q", XFF: chain}).address == "1.2.3.4"


@pytest.mark.parametrize("host", ["a", "a.b", "a-b.c", "a_b", "a.", "1.2.3.4:80", "[::1]", "[::1]:80", "xn--4ca.test"])
def test_it_knows_a_host(host: str) -> None:
    assert is_host(host)


@pytest.mark.parametrize(
    "host",
    [
        *("", ":80", "a:", "a:b", "a:65536", "a b", "a,b", "a/b", "a@b", "a?b", "a#b", "a%41", "[::1", "::1", "[x]"),
        *("a..b", ".a", "-a", "ä.de", "a\n", "a" * 300),
    ],
)  # fmt: skip
def test_it_knows_what_is_no_host(host: str) -> None:
    assert not is_host(host)


@pytest.mark.parametrize("entry", ["173.245.48.0/33", "1.2.3.4 5.6.7.8", "a.test", "::/129", "1.2.3", "1.2.3.4/x"])
def test_it_names_the_range_that_is_none(entry: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_ranges(f"10.0.0.0/8, {entry}, fe80::/10")

    assert str(caught.value) == entry


def test_it_reads_a_list_of_ranges() -> None:
    networks = parse_ranges("173.245.48.0/20,2400:cb00::/32, 10.0.0.7,,")

    assert networks == (ip_network("173.245.48.0/20"), ip_network("2400:cb00::/32"), ip_network("10.0.0.7"))


def test_it_tells_addresses_inside_from_those_outside() -> None:
    ranges = RangeSet(parse_ranges("173.245.48.0/20,2400:cb00::/32,::ffff:10.1.0.0/112"))

    inside = ["173.245.48.0", "173.245.63.255", "::ffff:173.245.50.1", "2400:cb00::", "2400:cb00:ffff::1", "10.1.9.9"]
    outside = ["173.245.64.0", "2400:cb01::", "10.2.0.0", "::", "::a01:0"]
    assert all(pack_address(address) in ranges for address in inside)
    assert not any(pack_address(address) in ranges for address in outside)
    assert "173.245.48.0" not in ranges
    assert not RangeSet()


@pytest.mark.parametrize("address", ["0.0.0.0", "255.255.255.255", "::", "::1", "2001:db8::1"])
def test_it_spells_an_address_one_way(address: str) -> None:
    packed = pack_address(address)

    assert packed is not None
    assert address_text(packed) == address
    assert len(budget_key(packed)) in (4, 8)
