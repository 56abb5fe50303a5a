"""Worlds for the tests of the engine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from app.infrastructure.valkey import Valkey
from tests.engine.world import World


@pytest.fixture
async def world(valkey_url: str, fresh_prefix: str) -> AsyncIterator[World]:
    """A World without a room yet."""
    valkey = await Valkey.connect(valkey_url, timeout_ms=20_000)  # a bound for a busy machine
    yield World(valkey, fresh_prefix)
    await valkey.close()
