"""The engine and a small model of it, written from its specification alone, agree on whatever is done to a room."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator

import pytest

from app.infrastructure.valkey import Valkey
from tests.model.machine import EngineMachine
from tests.model.play import machine_on, play


@pytest.fixture
def machine(valkey_url: str, fresh_prefix: str) -> Iterator[type[EngineMachine]]:
    """The machine on the run's Valkey."""
    with asyncio.Runner() as runner:
        valkey = runner.run(Valkey.connect(valkey_url))
        yield machine_on(runner, valkey, fresh_prefix)
        runner.run(valkey.close())


@pytest.mark.req("ENG-069", "ENG-070", "ENG-071", "ENG-121", "ENG-123", "ENG-128", "ENG-129", "ENG-272")
def test_it_agrees_with_the_model(machine: type[EngineMachine]) -> None:
    play(machine, examples=45, steps=30)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_it_agrees_with_the_model_in_long_plays(machine: type[EngineMachine]) -> None:
    """Other plays each time; a failure tells the seed, which `make fuzz SEED=…` takes."""
    play(machine, examples=400, steps=80, seed=secrets.randbelow(1 << 32))
