"""What the first look at a store makes of each error: refused for good, or tried on in a degraded start."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl

import asyncpg
import pytest
import structlog
from redis import exceptions as wrong

from app.core.settings import Settings
from app.core.settings_rules import load
from app.infrastructure.store_checks import StoreRefused, check_postgres, judge
from app.process import commands, start
from app.process.start import Refused

FOR_GOOD: list[tuple[BaseException, str]] = [
    (wrong.AuthenticationError("invalid username-password pair or user is disabled."), "credentials"),
    (wrong.AuthenticationError("WRONGPASS invalid username-password pair"), "credentials"),
    (wrong.ResponseError("NOAUTH Authentication required."), "credentials"),
    (wrong.NoPermissionError("this user has no permissions to run the 'info' command"), "credentials"),
    (wrong.AuthorizationError("x"), "credentials"),
    (wrong.ResponseError("invalid password"), "credentials"),
    (asyncpg.InvalidPasswordError("password authentication failed for user \"qm\""), "credentials"),
    (asyncpg.InvalidAuthorizationSpecificationError("role \"qm\" does not exist"), "credentials"),
    (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "host name"),
    (socket.gaierror(socket.EAI_NODATA, "No address associated with hostname"), "host name"),
    (ssl.SSLCertVerificationError(1, "certificate verify failed: self-signed certificate"), "TLS certificate"),
]  # fmt: skip
FOR_NOW: list[BaseException] = [
    wrong.ConnectionError("Error 111 connecting to 10.0.0.1:6379. Connection refused."),
    wrong.TimeoutError("Timeout connecting to server"),
    wrong.BusyLoadingError("LOADING Valkey is loading the dataset in memory"),
    wrong.ResponseError("MASTERDOWN Link with MASTER is down"),
    wrong.TryAgainError("TRYAGAIN"),
    wrong.ConnectionError("ERR max number of clients reached"),
    ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
    OSError(errno.EHOSTUNREACH, "No route to host"),
    OSError(errno.ENETDOWN, "Network is down"),
    TimeoutError(),
    ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"),
    socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
    asyncpg.TooManyConnectionsError("sorry, too many clients already"),
    asyncpg.CannotConnectNowError("the database system is starting up"),
    wrong.ResponseError("SOMETHING nobody has heard of"),
]


def wrapped(error: BaseException) -> BaseException:
    """As a library hands it on: the cause of an error of its own."""
    outer = wrong.ConnectionError("Error connecting to valkey")
    outer.__cause__ = error
    return outer


@pytest.mark.req("CFG-185", "FLT-052")
@pytest.mark.parametrize(("error", "kind"), FOR_GOOD, ids=lambda value: type(value).__name__)
def test_it_refuses_what_no_waiting_mends(error: BaseException, kind: str) -> None:
    for one in (error, wrapped(error)):
        for variable, store in (("VALKEY_URL", "Valkey"), ("DATABASE_URL", "Postgres")):
            with pytest.raises(StoreRefused, match=f"(?i){kind}") as caught:
                judge(one, variable, store)
            assert variable in str(caught.value)
            assert "10.0.0.1" not in str(caught.value)


@pytest.mark.req("CFG-186", "FLT-053")
@pytest.mark.parametrize("error", FOR_NOW, ids=lambda value: type(value).__name__)
def test_it_takes_everything_else_for_what_passes_and_says_its_first_words(error: BaseException) -> None:
    for one in (error, wrapped(error)):
        said = judge(one, "VALKEY_URL", "Valkey")
        assert said.startswith(f"{type(one).__name__}: ")
        assert len(said) <= len(type(one).__name__) + 62


@pytest.mark.req("CFG-185")
async def test_it_refuses_a_user_or_a_database_that_postgres_does_not_have(database_url: str) -> None:
    with pytest.raises(StoreRefused, match="refuses the credentials of DATABASE_URL"):
        await check_postgres(f"postgresql://nobody_here:a-password@{database_url.partition('@')[2]}")
    with pytest.raises(StoreRefused, match="does not exist"):
        await check_postgres(database_url.replace("/postgres?", "/nowhere?"))


@pytest.mark.req("CFG-185", "CFG-179")
def test_a_start_and_a_check_refuse_alike_and_name_no_address() -> None:
    env = {
        "STORE": "valkey", "VALKEY_URL": "redis://qm:a-password@no..such.host", "ADMIN_KEY": "k" * 16,
        "DATABASE_URL": "postgresql://127.0.0.1:1/qm", "SECRET": "s" * 32,
    }  # fmt: skip
    with pytest.raises(Refused, match="host name in VALKEY_URL does not resolve") as caught:
        commands.check(load(env))
    assert "a-password" not in caught.value.block()
    assert "such.host" not in caught.value.block()
    assert caught.value.EXIT_CODE == 78


@pytest.mark.req("CFG-186")
def test_a_start_logs_once_what_it_found_and_goes_on() -> None:
    with structlog.testing.capture_logs() as lines:
        asyncio.run(start._check_shared("redis://127.0.0.1:1", "postgresql://127.0.0.1:1/qm", Settings()))

    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("valkey: unreachable at boot", "warning"), ("postgres: unreachable at boot", "warning"),
    ]  # fmt: skip
    assert all(line["said"] for line in lines)
