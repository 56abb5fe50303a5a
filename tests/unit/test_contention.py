"""What was used between two readings, when that is contention, and who is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.domain.contention import OVER_SEC, TAKEN_PART, WINDOW_SEC, WINDOWS, Contention, Look, culprit
from app.domain.cpu_text import Machine, ProcessTime, Throttle
from app.domain.cpu_use import HEAVY, OTHER, REST, WEB, CpuReading, CpuUse, use_between

HZ = 100
WARN_MS = 50.0
START = CpuReading(
    at=1000.0,
    usable=2.0,
    machine=Machine(4, 100_000, 5000, 100),
    own={1: ProcessTime("python", 0, 5, 10), 2: ProcessTime("qm-web", 1, 6, 100), 3: ProcessTime("qm-jobs", 1, 7, 50)},
    throttle=Throttle(500, 20, 1.0),
    pressure_sec=7.0,
)


def spent(**ticks: int) -> dict[int, ProcessTime]:
    """The processes of START after so many more ticks, by name; others are new."""
    assert START.own is not None
    found = {
        pid: replace(one, ticks=one.ticks + ticks.pop(one.name.replace("-", "_"), 0)) for pid, one in START.own.items()
    }
    return found | {
        50 + at: ProcessTime(name.replace("_", "-"), 1, 900, number) for at, (name, number) in enumerate(ticks.items())
    }


def later(seconds: float = 5.0, **changes: object) -> CpuReading:
    return replace(START, at=START.at + seconds, **changes)  # type: ignore[arg-type]


@pytest.mark.req("BUD-056")
def test_it_gives_parts_of_what_there_is_to_use() -> None:
    """In 5 s of 4 CPUs, of which this instance may use 2: web 4 s, jobs 1 s, Postgres 1 s, others 8 s."""
    after = later(
        machine=Machine(4, 102_000, 6400, 200),
        own=spent(qm_web=400, qm_jobs=100, postgres=100),
        throttle=Throttle(550, 25, 1.2),
        pressure_sec=9.5,
    )
    use = use_between(START, after, HZ)
    assert (use.usable, use.own, use.host, use.steal, use.throttled, use.pressure) == (2.0, 0.6, 0.7, 0.05, 0.1, 0.5)
    assert use.users == {WEB: 0.2, HEAVY: 0.05, REST: 0.05, OTHER: pytest.approx(0.4)}


@pytest.mark.req("BUD-056")
def test_with_a_quota_it_is_the_container_that_counts() -> None:
    before = replace(START, quota=0.5, usable=0.5, group_sec=100.0)
    after = replace(before, at=before.at + 10, group_sec=104.0, own=spent(qm_web=100))
    use = use_between(before, after, HZ)
    assert (use.own, use.host, use.has_quota) == (0.2, 0.8, True)
    assert use.users[OTHER] == pytest.approx(0.6)


@pytest.mark.req("BUD-056")
def test_what_could_not_be_read_is_none_and_never_nothing() -> None:
    blind = CpuReading(at=1.0)
    use = use_between(blind, CpuReading(at=6.0), HZ)
    assert (use.usable, use.own, use.host, use.steal, use.throttled, use.pressure) == (None,) * 6
    assert use.users == {}
    assert use_between(START, START, HZ) == CpuUse(2.0)
    old_kernel = replace(START, machine=Machine(4, 100_000, 5000, None))
    assert use_between(old_kernel, replace(old_kernel, at=1005.0), HZ).steal is None


@pytest.mark.req("BUD-056")
def test_a_process_id_that_was_given_again_does_not_count_backwards() -> None:
    assert START.own is not None
    again = {**START.own, 2: ProcessTime("qm-web", 1, 9999, 30)}
    assert use_between(START, later(own=again), HZ).users[WEB] == pytest.approx(0.3 / 20)


class Clock:
    """A watch that looks every 5 s at a machine on which nothing else changes."""

    def __init__(self) -> None:
        self.state = Contention()
        self.reading = START

    def look(self, lag_ms: float | None = 1.0, *, steal: float = 0.0, throttled: float = 0.0) -> bool:
        """One window; ``steal``, ``throttled``: parts of it."""
        machine, throttle = self.reading.machine, self.reading.throttle
        assert machine is not None
        assert throttle is not None
        self.reading = replace(
            self.reading,
            at=self.reading.at + WINDOW_SEC,
            machine=replace(machine, total=machine.total + 1000, steal=(machine.steal or 0) + int(1000 * steal)),
            throttle=replace(
                throttle, periods=throttle.periods + 100, throttled=throttle.throttled + int(100 * throttled)
            ),
        )
        self.state, _ = self.state.after(Look(self.reading, lag_ms), warn_ms=WARN_MS, ticks_a_sec=HZ)
        return self.state.is_on

    def looks(self, number: int, lag_ms: float | None = 1.0, *, steal: float = 0.0, throttled: float = 0.0) -> bool:
        for _ in range(number):
            self.look(lag_ms, steal=steal, throttled=throttled)
        return self.state.is_on


@pytest.mark.req("BUD-057")
def test_late_loops_in_half_of_the_windows_of_30_s_are_contention() -> None:
    clock = Clock()
    assert not clock.looks(6)
    assert not clock.look(WARN_MS + 1)
    assert not clock.look(WARN_MS), "not over it"
    assert not clock.look(WARN_MS + 1)
    assert not clock.look(None), "not known"
    assert clock.look(WARN_MS + 1), "three of six"


@pytest.mark.req("BUD-057")
def test_late_windows_too_far_apart_are_none() -> None:
    clock = Clock()
    for _ in range(6):
        assert not clock.look(900.0)
        assert not clock.looks(2)


@pytest.mark.req("BUD-057")
@pytest.mark.parametrize("what", ["steal", "throttled"])
def test_cpu_time_that_is_taken_away_over_30_s_is_contention(what: str) -> None:
    clock = Clock()
    assert not clock.looks(WINDOWS + 1)
    most = TAKEN_PART * WINDOWS
    assert not clock.look(**{what: most - 0.02}), "a little less than 5 % of the whole"  # type: ignore[arg-type]
    clock = Clock()
    clock.looks(WINDOWS + 1)
    assert clock.look(**{what: most + 0.001})  # type: ignore[arg-type]
    clock = Clock()
    assert not clock.looks(WINDOWS, **{what: 0.5}), "less than 30 s are no 30 s"  # type: ignore[arg-type]
    assert clock.look(**{what: 0.5})  # type: ignore[arg-type]


@pytest.mark.req("BUD-057")
def test_it_ends_after_60_s_without() -> None:
    clock = Clock()
    assert clock.looks(3, 900.0)
    # The three windows stay in view of three more looks; from the last of them on 60 s pass.
    for _ in range(3 + int(OVER_SEC / WINDOW_SEC) - 1):
        assert clock.look()
    assert not clock.look()
    assert clock.looks(3, 900.0), "and begins again"
    assert clock.looks(10)
    assert clock.looks(3, 900.0), "met again before the 60 s were over"
    assert clock.looks(14)


@pytest.mark.req("BUD-059")
@pytest.mark.parametrize(
    ("use", "jobs", "sentence"),
    [
        (
            CpuUse(users={WEB: 0.03, HEAVY: 0.01, REST: 0.02, OTHER: 0.93}), (),
            "a process that is not Queue Manager uses 93 % of this machine",
        ),
        (
            CpuUse(users={WEB: 0.6, HEAVY: 0.01, REST: 0.2, OTHER: 0.1}), (),
            "Queue Manager's web workers use 60 % of this machine (traffic)",
        ),
        (
            CpuUse(users={WEB: 0.2, HEAVY: 0.5, REST: 0.1, OTHER: 0.1}), ("rebuild", "export"),
            "Queue Manager's own heavy work (rebuild, export) uses 50 % of this machine",
        ),
        (
            CpuUse(users={WEB: 0.1, HEAVY: 0.5}), (),
            "Queue Manager's own heavy work uses 50 % of this machine",
        ),
        (
            CpuUse(users={WEB: 0.1, REST: 0.4}), (),
            "Queue Manager's stores and other processes use 40 % of this machine",
        ),
        (
            CpuUse(steal=0.12, throttled=0.5, users={OTHER: 0.93}), (),
            "the provider takes 12 % of the CPU time of this machine (steal)",
        ),
        (
            CpuUse(steal=0.01, throttled=0.4, users={WEB: 0.93}), (),
            "the CPU quota of the provider holds this instance back in 40 % of its periods",
        ),
        (
            CpuUse(has_quota=True, users={WEB: 0.1, OTHER: 0.8}), (),
            "a process that is not Queue Manager uses 80 % of what this container may use",
        ),
        (CpuUse(), (), "who takes the CPU cannot be seen here"),
    ],
)  # fmt: skip
def test_it_says_who_takes_the_cpu(use: CpuUse, jobs: tuple[str, ...], sentence: str) -> None:
    assert culprit(use, jobs) == sentence
