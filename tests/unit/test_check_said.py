"""The gate's short way: which answers of the engine it may give at once, and which wait for what they rest on."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from app.core.errors import StorageUnavailable
from app.domain.room import RoomState
from app.infrastructure.engine_results import CheckAnswer, Reason, Verdict
from app.services.check import CheckService, CommitsFail, Gated
from app.services.checking import CheckAsking

GENERATION, SEQ = 3, 77


class Commits:
    """Knows how far the room is stored, and lets whoever waits wait until told."""

    def __init__(self, *, is_stored: bool) -> None:
        self.stored = is_stored
        self.said: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.asked: list[tuple[str, int, int]] = []

    def is_stored(self, room: str, generation: int, seq: int) -> bool:
        assert (room, generation, seq) == ("shop", GENERATION, SEQ)
        return self.stored

    async def wait(self, room: str, generation: int, seq: int) -> bool:
        self.asked.append((room, generation, seq))
        return await self.said


class Desk:
    """A check service over ``commits``."""

    def __init__(self, commits: Commits) -> None:
        self.told: list[tuple[Gated | None, BaseException | None]] = []
        self.undone: list[tuple[Any, ...]] = []
        issuer = SimpleNamespace(is_due=lambda identity, now_ms: False)
        service = CheckService(
            engine=None, engine_admin=SimpleNamespace(undo_admission=self._undo), commits=commits, rooms=None,
            identifier=None, issuer=issuer, counts=SimpleNamespace(admitted=lambda room: None), froms=None,
        )  # type: ignore[arg-type]  # fmt: skip
        self._door = SimpleNamespace(door=lambda key, scheme: b"qm_dk_shop=" + key.encode())
        room = SimpleNamespace(id="shop", room=SimpleNamespace(id="shop"), spare_doors=[], cookies=self._door)
        visitor = SimpleNamespace(client=SimpleNamespace(scheme="https"))
        self.asking = CheckAsking(
            service, lambda gated, error: self.told.append((gated, error)), room, visitor, identity=None,
            covered=(True, True, None), door=("key", b""), now_ms=1,
        )  # type: ignore[arg-type]  # fmt: skip

    async def _undo(self, *what: Any) -> bool:
        self.undone.append(what)
        return False

    async def until_told(self) -> tuple[Gated | None, BaseException | None]:
        while not self.told:
            await asyncio.sleep(0)
        (told,) = self.told
        return told


def answer(verdict: Verdict) -> CheckAnswer:
    return CheckAnswer(verdict, Reason.NEW, RoomState.ACTIVE, GENERATION, 7, SEQ, 10_000, 1_000)


async def turns() -> None:
    """Let everything go on that can."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.req("ENG-004", "ENG-146")
async def test_it_lets_no_session_in_whose_admission_is_not_committed() -> None:
    commits = Commits(is_stored=False)
    desk = Desk(commits)

    desk.asking.set_result(answer(Verdict.SESSION))
    await turns()

    assert (desk.told, commits.asked) == ([], [("shop", GENERATION, SEQ)])
    commits.said.set_result(True)
    gated, error = await desk.until_told()
    assert error is None
    assert gated is not None
    assert (gated.answer.verdict, list(gated.cookies)) == (Verdict.SESSION, [])


@pytest.mark.req("ENG-004", "ENG-146")
async def test_it_refuses_a_session_whose_admission_is_never_committed() -> None:
    commits = Commits(is_stored=False)
    desk = Desk(commits)
    desk.asking.set_result(answer(Verdict.SESSION))
    commits.said.set_result(False)

    gated, error = await desk.until_told()

    assert gated is None
    assert isinstance(error, CommitsFail)
    assert isinstance(error, StorageUnavailable)
    assert desk.undone == [], "it is not this check's admission"


@pytest.mark.req("ENG-146")
async def test_an_admission_waits_even_when_all_seems_stored() -> None:
    commits = Commits(is_stored=True)
    desk = Desk(commits)
    desk.asking.set_result(answer(Verdict.ADMITTED))
    await turns()
    assert desk.told == []

    commits.said.set_result(True)

    gated, _ = await desk.until_told()
    assert gated is not None
    assert list(gated.cookies) == [b"qm_dk_shop=key"]


@pytest.mark.parametrize(
    ("verdict", "is_stored"),
    [
        (Verdict.SESSION, True),
        (Verdict.QUEUE, False),
        *((other, False) for other in Verdict if other not in (Verdict.SESSION, Verdict.QUEUE, Verdict.ADMITTED)),
    ],
)
async def test_it_answers_at_once_what_rests_on_nothing(verdict: Verdict, is_stored: bool) -> None:
    commits = Commits(is_stored=is_stored)
    desk = Desk(commits)

    desk.asking.set_result(answer(verdict))

    assert [(gated and gated.answer.verdict, error) for gated, error in desk.told] == [(verdict, None)]
    assert commits.asked == []
