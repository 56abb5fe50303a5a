"""Servers whose answers about themselves are looked at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.admin.conftest import house as house
from tests.admin.conftest import process as process
from tests.harness import Server

MAX_CONNECTIONS = 60
PUBLIC_KEY = "public-key-of-this-deployment"


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    """Two workers behind a declared proxy, so that each caller may come from an address of its own."""
    env: dict[str, str | None] = {
        "TRUST_PROXY": "1",
        "TRUST_PROXY_IPS": "127.0.0.1",
        "PUBLIC_API_KEY": PUBLIC_KEY,
        "ADMIN_AUTH_FAIL_PER_MIN": "20",
        "CHECK_LIMIT_PER_MIN": "6",
        "STATUS_LIMIT_PER_MIN": "3",
        "MAX_CONNECTIONS": str(MAX_CONNECTIONS),
        "ALERT_EVERY_MS": "1000",
        "LOG_LEVEL": "debug",
    }
    with Server(env=env, workers=2) as server:
        yield server
