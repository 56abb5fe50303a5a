"""What a run of knocks says of a site, and which addresses nobody knocks at."""

from __future__ import annotations

import pytest

from app.domain.internal_addresses import is_internal
from app.domain.net_ranges import pack_address
from app.domain.site_health import KEPT, KEPT_MS, Knocked, SiteHealth


def after(*passes: bool) -> SiteHealth:
    health = SiteHealth()
    for number, passed in enumerate(passes):
        health = health.after(Knocked(number * 10_000, 50, 200) if passed else Knocked(number * 10_000, 50, 0, "dns"))
    return health


def test_it_takes_three_failures_in_a_row_for_a_bad_site_and_one_good_knock_for_a_good_one() -> None:
    assert after().is_up is None
    assert after(True).is_up is True
    assert after(False, False).is_up is None
    assert after(False, False, False).is_up is False
    assert after(True, False, False).is_up is True
    assert after(True, False, False, False).is_up is False
    assert after(True, False, False, True, False, False).is_up is True
    assert after(False, False, False, False, True).is_up is True


def test_it_keeps_knocks_for_a_while_and_never_many() -> None:
    health = after(*[True] * 30)
    assert len(health.knocks) == KEPT_MS // 10_000

    for at in range(1000):
        health = health.after(Knocked(1_000_000 + at, 1, 200))
    assert len(health.knocks) == KEPT
    assert health.knocks[-1].at == 1_000_999


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.255.0.9", "0.0.0.0", "0.1.2.3", "10.0.0.5", "172.16.0.1", "172.31.255.255", "192.168.1.1",
        "100.64.0.1", "169.254.169.254", "192.0.0.8", "198.18.0.1", "198.19.255.255", "224.0.0.1", "240.0.0.1",
        "255.255.255.255", "192.88.99.1", "168.63.129.16", "::", "::1", "::7f00:1", "fe80::1", "fc00::1",
        "fd00:ec2::254", "fec0::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1",
        "64:ff9b:1::1", "2002:7f00:1::", "2001::1", "2001:0:53aa::1", "::ffff:0:10.0.0.1",
    ],
)  # fmt: skip
def test_it_knows_every_internal_address(address: str) -> None:
    packed = pack_address(address)
    assert packed is not None
    assert is_internal(packed)


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "172.32.0.1", "100.128.0.1", "198.20.0.1", "192.0.1.1", "168.63.129.17", "::ffff:8.8.8.8",
     "2001:db8::1", "2001:4860:4860::8888", "2606:4700::1"],
)  # fmt: skip
def test_it_lets_other_addresses_be(address: str) -> None:
    packed = pack_address(address)
    assert packed is not None
    assert not is_internal(packed)
