"""Limits through the whole edge, with one and two workers."""

from __future__ import annotations

import secrets
import time

import pytest

from tests.edge.wire import DevServer, Wire


@pytest.mark.req("VIS-013", "CFG-099")
@pytest.mark.parametrize("options", [{}, {"hops": 1}, {"proxies": "127.0.0.1"}, {"hops": 1, "proxies": "10.0.0.0/8"}])
def test_it_gives_900_forged_addresses_one_budget(options: dict[str, object]) -> None:
    with DevServer(limit=50, **options) as dev, Wire(dev.port) as wire:
        passed = 0
        for number in range(900):
            forged = f"X-Forwarded-For: 9.{number // 250}.{number % 250}.1"
            answer = wire.ask("GET /api/limited", forged, f"X-Real-IP: 8.8.{number % 250}.8")
            passed += answer.status == 200

    assert passed == 50


@pytest.mark.req("VIS-015", "CFG-105")
def test_it_gives_each_visitor_behind_a_declared_proxy_his_own() -> None:
    with DevServer(limit=2, hops=1, proxies="127.0.0.1") as dev, Wire(dev.port) as wire:
        answers = [
            [
                wire.ask("GET /api/limited", f"X-Forwarded-For: 9.9.9.{turn}, 10.0.0.{number}").status
                for turn in range(3)
            ]
            for number in range(50)
        ]

    assert answers == [[200, 200, 429]] * 50


@pytest.mark.req("CFG-015")
def test_it_holds_a_limit_over_two_workers() -> None:
    with DevServer(workers=2, limit=200) as dev:
        wires: list[Wire] = []
        pids: set[int] = set()
        deadline = time.monotonic() + 30
        try:
            while len(pids) < 2 or len(wires) < 24:
                assert time.monotonic() < deadline
                wires.append(Wire(dev.port))
                pids.add(wires[-1].ask("GET /api/check").fields["pid"])
            statuses = [secrets.choice(wires).ask("GET /api/limited").status for _ in range(500)]
        finally:
            for wire in wires:
                wire.sock.close()

    assert statuses == [200] * 200 + [429] * 300


@pytest.mark.req("VIS-070", "VIS-071")
def test_it_tells_the_state_of_the_budget_with_each_answer() -> None:
    with DevServer(limit=2) as dev, Wire(dev.port) as wire:
        answers = [wire.ask("GET /api/limited") for _ in range(3)]

        assert [answer.headers["x-ratelimit-limit"] for answer in answers] == ["2"] * 3
        assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["1", "0", "0"]
        assert all(1 <= int(answer.headers["x-ratelimit-reset"]) <= 60 for answer in answers)
        assert [answer.headers.get("retry-after") is not None for answer in answers] == [False, False, True]
        assert len(answers[2].all("retry-after")) == 1
        assert answers[2].code == "rate_limited"
    with DevServer(limit=0) as dev, Wire(dev.port) as wire:
        assert not any(name.startswith("x-ratelimit") for name in wire.ask("GET /api/limited").headers)
