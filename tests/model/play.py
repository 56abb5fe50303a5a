"""Playing the machine: a number of plays, the same each time or by a seed. Not here: what a play is (machine.py)."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from app.infrastructure.valkey import Valkey
from tests.model.machine import EngineMachine
from tests.model.rig import Rig


def machine_on(runner: asyncio.Runner, valkey: Valkey, prefix: str) -> type[EngineMachine]:
    """The machine on a Valkey, in a loop of its own, with keys that begin with ``prefix``."""

    class Machine(EngineMachine):
        loop = runner

        @classmethod
        def make_rig(cls) -> Rig:
            return Rig(valkey, prefix)

    return Machine


def play(machine: type[EngineMachine], *, examples: int, steps: int, seed: int | None = None) -> None:
    """Play ``examples`` times at most ``steps`` steps; without ``seed`` the same plays each time.

    A failure names the steps of the shortest play found that fails, and the seed.
    """
    options: dict[str, Any] = {} if seed is not None else {"derandomize": True}
    # Read by run_state_machine_as_test, as it is by @seed for an ordinary test.
    machine._hypothesis_internal_use_seed = seed
    try:
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples, stateful_step_count=steps, deadline=None, database=None, print_blob=True,
                report_multiple_bugs=False, suppress_health_check=list(HealthCheck), **options,
            ),
        )  # fmt: skip
    except BaseException as error:
        error.add_note(f"seed {seed}, {steps} steps" if seed is not None else "derandomized play")
        raise
