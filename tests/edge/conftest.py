"""One dev app for the tests that do not change it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.edge.wire import DevServer, Wire


@pytest.fixture(scope="session")
def dev() -> Iterator[DevServer]:
    """A dev app with one worker and the real deadlines."""
    with DevServer() as server:
        yield server


@pytest.fixture
def wire(dev: DevServer) -> Iterator[Wire]:
    """A fresh connection to it."""
    with Wire(dev.port) as connection:
        yield connection
