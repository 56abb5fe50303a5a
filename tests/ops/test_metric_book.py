"""The memory that all processes of an instance count in."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator

import pytest

from app.core import metrics
from app.infrastructure.metric_book import ENTRIES, MetricBook, MetricMemory, signed


@pytest.fixture
def memory() -> Iterator[MetricMemory]:
    made = MetricMemory.create(3)
    yield made
    made.close()


def count_in(name: str, area: int) -> None:
    """What a process of an instance does."""
    book = MetricBook.attach(name, area)
    book.add(metrics.JOINS, "shop")
    book.put(metrics.SSE, 7, "admin")
    book.observe(metrics.HTTP_SECONDS, 0.2, "/api/join")


def test_it_adds_up_what_all_processes_counted(memory: MetricMemory) -> None:
    first, second = MetricBook.attach(memory.name, 0), MetricBook.attach(memory.name, 1)
    child = multiprocessing.get_context("spawn").Process(target=count_in, args=(memory.name, 2))
    child.start()
    first.add(metrics.JOINS, "shop", number=5)
    second.add(metrics.JOINS, "drop")
    second.observe(metrics.HTTP_SECONDS, 30, "/api/join")
    child.join()

    found = first.everything()

    assert found["qm_joins_total", ("shop",)] == [6]
    assert found["qm_joins_total", ("drop",)] == [1]
    *buckets, micros = found["qm_http_request_seconds", ("/api/join",)]
    assert buckets == [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1]
    assert micros == 30_200_000
    assert second.total(metrics.JOINS, "shop") == 6
    assert second.total(metrics.JOINS, "nowhere") == 0


def test_a_successor_goes_on_with_the_counts_and_without_what_was_open(memory: MetricMemory) -> None:
    reader = MetricBook.attach(memory.name, 1)
    count_in(memory.name, 0)
    assert reader.total(metrics.SSE, "admin") == 7

    count_in(memory.name, 0)
    MetricBook.attach(memory.name, 0)

    assert reader.total(metrics.JOINS, "shop") == 2
    assert reader.total(metrics.SSE, "admin") == 0


def test_it_drops_what_does_not_fit_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    book = MetricBook.alone()
    for number in range(ENTRIES + 10):
        book.add(metrics.JOINS, f"room-{number}")
    book.add(metrics.JOINS, "room-0")
    book.add(metrics.ORIGIN_ERRORS, "r" * 200, "timeout")
    book.observe(metrics.HTTP_SECONDS, 1, "too late")

    found = book.everything()

    assert len(found) == ENTRIES - 1
    assert found["qm_joins_total", ("room-0",)] == [2]
    assert sum(value for value, *_ in found.values()) == ENTRIES


def test_it_keeps_the_text_written_last(memory: MetricMemory) -> None:
    first, second = MetricBook.attach(memory.name, 0), MetricBook.attach(memory.name, 1)
    assert second.text("storage_error") == ""
    first.write_text("storage_error", "connection lost")
    assert second.text("storage_error") == "connection lost"
    first.write_text("storage_error", "ü" * 5000)
    assert second.text("storage_error") == "ü" * 512


def test_it_reads_a_negative_number_back() -> None:
    book = MetricBook.alone()
    book.put(metrics.JUMP_MS, -3_600_000)
    assert signed(book.latest(metrics.JUMP_MS)) == -3_600_000


def test_it_refuses_a_memory_that_is_none(memory: MetricMemory, tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="no area 3"):
        MetricBook.attach(memory.name, 3)
    other = tmp_path / "other"
    other.write_bytes(bytes(4096))
    with pytest.raises(ValueError, match="no memory for metrics"):
        MetricBook.attach(str(other), 0)
