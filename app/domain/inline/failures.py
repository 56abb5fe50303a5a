"""Why an origin gave no answer: one name per class, everywhere the same (INL-170)."""

from __future__ import annotations

from enum import StrEnum


class Failure(StrEnum):
    """Classes of origin failures, as in headers, JSON, logs and metric labels."""

    CONNECT = "connect"
    DNS = "dns"
    TLS = "tls"
    TIMEOUT = "timeout"
    RESET = "reset"
    BAD_RESPONSE = "bad_response"
    BLOCKED_ADDRESS = "blocked_address"

    @property
    def status(self) -> int:
        """Status of the answer that QM gives in the origin's place."""
        return 504 if self is Failure.TIMEOUT else 502

    @property
    def code(self) -> str:
        """Code of that answer."""
        return _CODES.get(self, "origin_unreachable")

    @property
    def sentence(self) -> str:
        """What it says; it names no address."""
        return _SENTENCES.get(self, "The site behind the queue cannot be reached")


_CODES = {
    Failure.TIMEOUT: "origin_timeout",
    Failure.BAD_RESPONSE: "origin_bad_response",
    Failure.BLOCKED_ADDRESS: "origin_address_refused",
}
_SENTENCES = {
    Failure.TIMEOUT: "The site behind the queue did not answer in time",
    Failure.BAD_RESPONSE: "The site behind the queue gave an answer that cannot be read",
    Failure.BLOCKED_ADDRESS: "The site behind the queue has an address that this server does not connect to",
}


class OriginFailed(Exception):
    """No answer, or only a part of one, came from an origin."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.value)
        self.failure = failure
