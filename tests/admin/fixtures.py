"""Callers of whichever ``server`` a folder or file of tests has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.admin.callers import Caller, Callers
from tests.harness import Server


@pytest.fixture
def callers(server: Server) -> Iterator[Callers]:
    """Makes callers of that server."""
    callers = Callers(server)
    yield callers
    callers.close()


@pytest.fixture
def owner(server: Server, callers: Callers) -> Caller:
    """A script with ADMIN_KEY."""
    return callers.with_key(server.admin_key)


@pytest.fixture
def stranger(callers: Callers) -> Caller:
    """A script without a key, at an address of its own."""
    return callers.with_key(None)
