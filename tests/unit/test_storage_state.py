"""When storage is called failing, when its failure is hard, and who leaves the rotation for it."""

from __future__ import annotations

import pytest

from app.domain.storage_state import StorageJudge, StorageReport, StorageTimes, Unready, any_well

EVERY = 10_000


@pytest.mark.req("OBS-023")
@pytest.mark.parametrize(
    ("good", "bad", "now", "is_ok"),
    [
        (0, 0, 5, True),
        (1000, 0, 2000, True),
        (1000, 2000, 2001, False),
        (1000, 2000, 900_000, False),
        (3000, 2000, 3001, False),
        (3000, 2000, 31_999, False),
        (3000, 2000, 32_000, True),
    ],
)
def test_it_is_ok_again_after_a_good_try_and_three_quiet_frames(good: int, bad: int, now: int, is_ok: bool) -> None:
    assert StorageTimes(good, bad).is_ok(now, EVERY) is is_ok


@pytest.mark.req("OBS-018")
def test_a_failure_is_hard_after_two_frames_in_a_row_that_saw_a_new_one() -> None:
    judge = StorageJudge(EVERY)
    failing, well = StorageTimes(1000, 2000), StorageTimes(2500, 2000)

    judge.frame(1, 10_000)
    assert not judge.is_hard(failing), "one frame"
    judge.frame(1, 20_000)
    judge.frame(2, 30_000)
    assert not judge.is_hard(failing), "a frame without a new one in between"
    judge.frame(5, 40_000)
    assert judge.is_hard(failing)
    assert not judge.is_hard(well), "the first good commit or probe ends it"


@pytest.mark.req("OBS-018", "OBS-025")
def test_one_timeout_that_a_good_commit_follows_takes_no_instance_out_and_alerts_nobody() -> None:
    judge = StorageJudge(EVERY)
    judge.frame(2, 10_000)  # a join's commit and that of its compensation
    judge.frame(2, 20_000)

    after = StorageTimes(9000, 8000)
    assert judge.unready(after, is_private=True, others_well=True) is Unready.NO
    assert not judge.is_raised
    assert not after.is_ok(10_000, EVERY)


@pytest.mark.req("OBS-020")
def test_a_process_that_never_wrote_fails_hard_from_its_first_failure() -> None:
    judge = StorageJudge(EVERY)
    judge.frame(1, 1000)
    assert judge.is_hard(StorageTimes(0, 900))
    assert not judge.is_hard(StorageTimes(0, 0))


@pytest.mark.req("OBS-015", "OBS-019")
def test_it_leaves_the_rotation_alone_or_beside_another_that_is_well() -> None:
    judge = StorageJudge(EVERY)
    for frame in (1, 2):
        judge.frame(frame, frame * EVERY)
    failing = StorageTimes(1000, 2000)

    assert judge.unready(failing, is_private=True, others_well=False) is Unready.PRIVATE
    assert judge.unready(failing, is_private=False, others_well=True) is Unready.ALONE
    assert judge.unready(failing, is_private=False, others_well=False) is Unready.NO


def test_an_alert_wants_two_frames_within_three() -> None:
    judge = StorageJudge(EVERY)
    judge.frame(1, 10_000)
    judge.frame(1, 20_000)
    judge.frame(1, 30_000)
    judge.frame(2, 40_001)
    assert not judge.is_raised
    judge.frame(2, 50_001)
    judge.frame(3, 60_001)
    assert judge.is_raised


@pytest.mark.req("OBS-019")
@pytest.mark.parametrize(
    ("is_well", "at", "counts"), [(True, 70_000, True), (True, 69_999, False), (False, 99_000, False)]
)
def test_another_instance_s_word_counts_for_three_frames(is_well: bool, at: int, counts: bool) -> None:
    report = StorageReport("other", at, is_well=is_well, is_raised=False)
    assert any_well([report], 100_000, EVERY) is counts
