"""What a rate limit says about one request.

Belongs here: the value that services and the edge pass on. Not here: counting (infrastructure/rate_limiter.py).
"""

from __future__ import annotations

from typing import NamedTuple


class Budget(NamedTuple):
    """State of one key's budget after a request was counted, or refused (VIS-070 … VIS-072).

    A named tuple, since one is made per limited request and a frozen dataclass costs three times as much.
    """

    allowed: bool
    limit: int
    """Requests per window; 0 = the limit is off and no header is sent."""
    remaining: int
    reset_sec: int
    """Seconds until the budget is full again, at least 1 while anything of it is used."""
    retry_after_sec: int = 0
    """For a refused request: seconds until the next one can succeed, at least 1."""

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The ``X-RateLimit-*`` lines of an answer, and ``Retry-After`` of a refusal; none with the limit off."""
        if not self.limit:
            return []
        lines = [
            (b"X-RateLimit-Limit", b"%d" % self.limit),
            (b"X-RateLimit-Remaining", b"%d" % self.remaining),
            (b"X-RateLimit-Reset", b"%d" % self.reset_sec),
        ]
        if not self.allowed:
            lines.append((b"Retry-After", b"%d" % self.retry_after_sec))
        return lines


UNLIMITED = Budget(allowed=True, limit=0, remaining=0, reset_sec=0)
"""The budget of a limit that is switched off."""
