"""What the machine chooses from. Words that stand more often are chosen more often."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

ADDRESSES = ("home", "office", "cafe")
MOST_VISITORS = 10
WHO = st.integers(0, MOST_VISITORS - 1)
STEPS = st.sampled_from((0, 5, 10, 10, 15, 20, 40, 80, 125, 300))
"""Tenths of a second, in halves of a second: with the rates below credit is a binary fraction."""
LOSSES = ("", "keys", "keys", "cookies", "token", "steal", "proxy")
"""What somebody has no more when he comes again."""
PAUSES = st.sampled_from((0, 10, 50, 100, 105, 110, 200))
"""Between two visits of the same: within and beyond the grace of an admission, the presence, a session."""
VISITS = st.sampled_from(("check", "check", "check", "status", "status", "join", "join", "leave"))
STORE = ("commit", "commit", "fail join", "fail admission", "crash", "crash, fence", "crash, lose tail")
RATES = (0, 15, 30, 60, 60, 120, 600, 600)
SETTINGS: dict[str, tuple[Any, ...]] = {
    "state": ("active", "active", "active", "paused", "bypass"),
    "rate": RATES,
    "max_concurrent": (None, 1, 2, 3, 5),
    "passed_ttl": (5, 20, 60, 150),
    "session_ttl": (5, 12, 60),
    "session_max": (10, 40, 300),
    "presence": (3, 8, 30),
    "ip_cap": (None, 1, 3),
    "pre_ip_cap": (None, 1, 3),
    "session_ip_cap": (None, None, 1, 2),
}
ACTS = (*SETTINGS, "eject", "eject", "flush", "purge", "schedule", "recreate")
