"""Readings of header lines: shared by requests that bring the same ones, bounded, and never of somebody else."""

from __future__ import annotations

import ipaddress

import pytest

from app.core.errors import BadRequest
from app.domain.client_address import ClientResolver, TrustPolicy
from blueprints.edge import reading, recurring
from blueprints.edge.reading import Reading, Readings

LINES = b"Host: q.example\r\nCookie: qm_shop=T; qms_shop=S\r\nX-Forwarded-For: 203.0.113.9"


@pytest.fixture
def readings() -> Readings:
    return Readings(ClientResolver(TrustPolicy.of(1, [ipaddress.ip_network("10.0.0.0/8")])))


def read(readings: Readings, block: bytes = LINES, minor: int = 1, peer: str = "10.0.0.1") -> Reading:
    return readings.read(block, minor, peer, declared=peer.startswith("10."), tls=False)


def test_it_reads_once_what_comes_a_second_time(readings: Readings) -> None:
    first, second, third = read(readings), read(readings), read(readings)

    assert first is not second  # lines seen once only are not worth the memory
    assert second is third
    assert third.jar() == {"qm_shop": ["T"], "qms_shop": ["S"]}


def test_it_reads_the_same_lines_from_another_peer_anew(readings: Readings) -> None:
    for _ in range(3):
        by_proxy, direct = read(readings), read(readings, peer="192.0.2.7")

    assert (by_proxy.client.address, direct.client.address) == ("203.0.113.9", "192.0.2.7")


def test_it_tells_the_versions_of_http_apart(readings: Readings) -> None:
    kept = [read(readings, minor=minor).fields.keep_alive for minor in (1, 1, 0, 1)]

    assert kept == [True, True, False, True]


def test_it_refuses_bad_lines_each_time(readings: Readings) -> None:
    for _ in range(3):
        with pytest.raises(BadRequest):
            read(readings, b"Host: q.example\r\nbad line")


def test_it_stays_small_when_every_line_is_new(readings: Readings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurring, "KEPT_MAX", 8)
    monkeypatch.setattr(recurring, "SEEN_MAX", 32)

    for number in range(200):
        block = b"Host: q.example\r\nX-Number: %d" % number
        for _ in range(2):
            assert read(readings, block).headers[b"x-number"] == b"%d" % number
        assert len(readings._kept) <= 8
        assert len(readings._kept._seen) <= 32


def test_it_does_not_keep_long_lines(readings: Readings) -> None:
    long = LINES + b"\r\nX-Long: " + b"a" * 4000

    assert read(readings, long) is not read(readings, long)
    assert not readings._kept


def test_it_keeps_few_conclusions_with_one_reading(readings: Readings) -> None:
    kept = read(readings)

    for number in range(50):
        kept.conclude(number, "x")
        assert kept.memo[number] == "x"
        assert len(kept.memo) <= reading.MEMO_MAX
