"""Passing on what the process for heavy work makes: signs of life, and clients that are gone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from app.core.errors import Unavailable
from app.infrastructure.heavy_link import HeavyAnswer
from app.services.heavy_works import Work
from blueprints.admin import pieces
from blueprints.admin.pieces import GONE_SEC, from_heavy


class Stage:
    """A client, the answering process, and the clock between them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(pieces, "mono", lambda: self.now)
        self.connection = SimpleNamespace(is_half_closed=False, handler_lives=self._live, cut=self._cut)
        self.before: list[float] = []
        """Seconds after which the process says that it is still there, before its answer."""
        self.body: list[bytes | float] = [b"a", b"b"]
        self.sent: list[bytes] = []
        self.ended = ""
        self.lived_at = 0.0

    def _live(self) -> None:
        self.lived_at = self.now

    def _cut(self) -> None:
        self.ended = "cut"

    def _pass(self, seconds: float, note_sign: Callable[[], None]) -> None:
        self.now += seconds
        note_sign()

    @asynccontextmanager
    async def ask(self, _: object, note_sign: Callable[[], None], **__: object) -> AsyncIterator[HeavyAnswer]:
        for seconds in self.before:
            self._pass(seconds, note_sign)

        async def body() -> AsyncIterator[bytes]:
            for piece in self.body:
                if isinstance(piece, float):
                    self._pass(piece, note_sign)
                elif piece == b"broken":
                    raise Unavailable
                else:
                    yield piece

        yield HeavyAnswer(None, body())

    async def respond(self, **_: object) -> Stage:
        return self

    async def send(self, piece: bytes) -> None:
        self.sent.append(piece)

    async def eof(self) -> None:
        self.ended = "whole"

    async def pass_on(self) -> None:
        request = SimpleNamespace(
            stream=SimpleNamespace(protocol=self.connection), method="GET", ctx=SimpleNamespace(request_id="R1"),
            respond=self.respond,
        )  # fmt: skip
        call: Any = SimpleNamespace(
            request=request, qm=SimpleNamespace(heavy=self), principal=SimpleNamespace(name="Ann")
        )
        await from_heavy(call, Work("report"))


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


async def test_it_keeps_a_connection_that_waits(stage: Stage) -> None:
    stage.before = [10.0] * 30

    await stage.pass_on()

    assert (stage.sent, stage.ended) == ([b"a", b"b"], "whole")
    assert stage.lived_at == stage.now, "the edge ends no handler that waits for its turn"


async def test_a_client_that_went_away_while_it_waited_frees_its_place(stage: Stage) -> None:
    stage.connection.is_half_closed = True
    stage.before = [GONE_SEC, 1.0]

    with pytest.raises(Unavailable):
        await stage.pass_on()
    assert stage.sent == []


async def test_a_client_that_sends_no_more_gets_its_whole_answer(stage: Stage) -> None:
    stage.connection.is_half_closed = True
    stage.before, stage.body = [1.0], [b"a", 60.0, b"b"]

    await stage.pass_on()

    assert (stage.sent, stage.ended) == ([b"a", b"b"], "whole")


async def test_it_cuts_off_what_breaks_off(stage: Stage) -> None:
    stage.body = [b"a", b"broken", b"c"]

    await stage.pass_on()

    assert (stage.sent, stage.ended) == ([b"a"], "cut")
