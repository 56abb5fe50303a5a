"""Why a store will not let this server work, however long it waits: three kinds of error that somebody has to mend.

They refuse a start (store_checks.py); later they are told in the incident (FLT-052, FLT-056).
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

import asyncpg
from redis import exceptions as wrong

_CREDENTIALS: Final = (
    wrong.AuthenticationError,
    wrong.AuthorizationError,
    wrong.NoPermissionError,
    asyncpg.InvalidPasswordError,
    asyncpg.InvalidAuthorizationSpecificationError,
)
_CREDENTIAL_WORDS: Final = ("WRONGPASS", "NOAUTH", "NOPERM", "invalid password", "ACL")


class Trouble(StrEnum):
    """A kind; its words follow those that say that the store cannot be reached."""

    CREDENTIALS = "it refuses the credentials"
    NAME = "its host name does not resolve"
    CERTIFICATE = "its TLS certificate does not verify"


def trouble_of(error: BaseException | None) -> Trouble | None:
    """The kind of an error, by it and everything that caused it; None: it may pass by itself."""
    for cause in _causes(error):
        if isinstance(cause, _CREDENTIALS) or any(word in str(cause) for word in _CREDENTIAL_WORDS):
            return Trouble.CREDENTIALS
        # A name that cannot even be asked for (two dots in a row) fails in the codec of such names.
        is_unknown = isinstance(cause, socket.gaierror) and cause.errno in (socket.EAI_NONAME, socket.EAI_NODATA)
        if is_unknown or isinstance(cause, UnicodeError):
            return Trouble.NAME
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Trouble.CERTIFICATE
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
