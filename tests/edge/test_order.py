"""Nothing is lost or reordered between the fast path and the connection's task."""

from __future__ import annotations

import secrets
import socket
import threading

import pytest

from tests.edge.wire import HOST, DevServer, Wire

BODY = b'{"roomId":"shop","token":"' + b"a" * 40 + b'"}'
HOT = b"POST /api/check?n=%d HTTP/1.1\r\n" + HOST + b"Content-Length: " + str(len(BODY)).encode() + b"\r\n\r\n" + BODY
STOCK = b"GET /stock?n=%d HTTP/1.1\r\n" + HOST + b"\r\n"
SLOW = b"GET /api/status?sec=0.05&name=%d HTTP/1.1\r\n" + HOST + b"\r\n"
CHUNKED = (
    b"POST /api/check?n=%d HTTP/1.1\r\n"
    + HOST
    + b"Transfer-Encoding: chunked\r\n\r\n"
    + b"5;x=y\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
)


def number_of(answer_fields: dict[str, object]) -> int:
    """The number that a request of one of the kinds above carries back."""
    found = answer_fields.get("stock") or answer_fields.get("slow") or answer_fields["query"]["n"]  # type: ignore[index]
    return int(str(found))


@pytest.mark.parametrize("whole", [HOT % 7, STOCK % 7, CHUNKED % 7], ids=["hot", "stock", "chunked"])
def test_it_serves_a_request_split_at_every_byte(dev: DevServer, whole: bytes) -> None:
    for cut in range(1, len(whole)):
        with Wire(dev.port) as wire:
            wire.send(whole[:cut])
            # A round trip on another connection: the server has read the first part by then.
            with Wire(dev.port) as other:
                assert other.ask("GET /stock").status == 200
            wire.send(whole[cut:])

            assert number_of(wire.answer().fields) == 7


def test_it_serves_a_request_that_comes_byte_by_byte(wire: Wire) -> None:
    for position in range(len(HOT % 7)):
        wire.send((HOT % 7)[position : position + 1])

    assert number_of(wire.answer().fields) == 7


@pytest.mark.parametrize("size", [1, 3, 17, 100, 1000, 1_000_000])
def test_it_answers_a_pipeline_of_all_kinds_in_order(wire: Wire, size: int) -> None:
    kinds = (HOT, STOCK, SLOW, CHUNKED)
    wanted = list(range(40))
    data = b"".join(kinds[number * 7 % 4] % number for number in wanted)

    sender = threading.Thread(
        target=lambda: [wire.send(data[start : start + size]) for start in range(0, len(data), size)]
    )
    sender.start()
    got = [number_of(wire.answer().fields) for _ in wanted]
    sender.join()

    assert got == wanted


def test_it_keeps_a_connection_for_hot_and_stock_in_turn(wire: Wire) -> None:
    for number in range(200):
        wire.send((HOT if number % 3 else STOCK) % number)
        assert number_of(wire.answer().fields) == number


def test_it_holds_back_what_comes_while_a_hot_handler_waits(wire: Wire) -> None:
    wire.send(SLOW % 1)
    with Wire(wire.sock.getpeername()[1]) as other:
        assert other.ask("GET /stock").status == 200
    wire.send(HOT % 2)
    wire.send(STOCK % 3)
    wire.send(HOT % 4)

    assert [number_of(wire.answer().fields) for _ in range(4)] == [1, 2, 3, 4]


def test_it_reads_the_next_request_behind_a_body_nobody_read(wire: Wire) -> None:
    wire.send(b"POST /ignores HTTP/1.1\r\n" + HOST + b"Content-Length: 1000\r\n\r\n" + HOT % 1)
    first = wire.answer()
    wire.send(b"x" * (1000 - len(HOT % 1)) + HOT % 2)

    assert first.body == b"ignored"
    assert number_of(wire.answer().fields) == 2


def test_it_never_takes_an_unread_body_for_a_request(wire: Wire) -> None:
    hidden = HOT % 666
    wire.send(b"POST /ignores HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(hidden))
    assert wire.answer().body == b"ignored"
    wire.send(hidden)
    wire.send(STOCK % 5)

    assert wire.answer().fields["stock"] == "5"


def test_it_tolerates_line_ends_between_requests(wire: Wire) -> None:
    wire.send(HOT % 1 + b"\r\n" + HOT % 2 + b"\r\n\r\n" + STOCK % 3)

    assert [number_of(wire.answer().fields) for _ in range(3)] == [1, 2, 3]


def test_it_answers_nothing_after_a_request_that_closes(wire: Wire) -> None:
    wire.send(b"GET /api/check?n=1 HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n" + HOT % 2)

    assert number_of(wire.answer().fields) == 1
    assert wire.is_closed()


def test_it_survives_clients_that_go_away_at_any_moment(dev: DevServer) -> None:
    def torment(seed: int) -> None:
        kinds = (HOT, STOCK, SLOW, CHUNKED)
        for turn in range(60):
            data = b"".join(kinds[secrets.randbelow(4)] % number for number in range(3))
            with Wire(dev.port) as wire:
                wire.send(data[: secrets.randbelow(len(data)) + 1])
                if turn % 3 == 0:
                    wire.sock.shutdown(socket.SHUT_WR)
                if turn % 3 == 1:
                    wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")

    def mix(wrong: list[object]) -> None:
        kinds = (HOT, STOCK, SLOW, CHUNKED)
        with Wire(dev.port) as wire:
            for turn in range(60):
                burst = [secrets.randbelow(4) for _ in range(secrets.randbelow(4) + 1)]
                wire.send(b"".join(kinds[kind] % (turn * 10 + place) for place, kind in enumerate(burst)))
                got = [number_of(wire.answer().fields) for _ in burst]
                if got != [turn * 10 + place for place in range(len(burst))]:
                    wrong.append(got)

    wrong: list[object] = []
    threads = [threading.Thread(target=torment, args=(seed,)) for seed in range(4)]
    threads += [threading.Thread(target=mix, args=(wrong,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []
    with Wire(dev.port) as wire:
        for _ in range(200):
            if wire.ask("GET /finished").fields["running"] == 0 and wire.ask("GET /connections").fields["open"] == 1:
                break
        else:
            pytest.fail("connections or handlers were left behind")
