"""What a run of knocks at a site says of it. Pure; the knocks are made by infrastructure/knock.py.

Source: OBS-047, MSH-026, MSH-035, MSH-093: one failed knock means nothing, three in a row make a site bad, one good one
makes it well again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

STREAK: Final = 3
KEPT_MS: Final = 120_000
"""How long knocks are kept: autotune looks at the last 90 s."""
KEPT: Final = 128


@dataclass(frozen=True, slots=True)
class Knocked:
    """One knock. ``at``: wall ms of the live store; ``ms``: how long it took; ``status``: of the answer, 0 = none."""

    at: int
    ms: int
    status: int
    failure: str = ""
    """Class of the failure (decision 12 of the glossary): ``connect``, ``dns``, ``tls``, ``timeout``, ``reset``,
    ``bad_response``, ``http-<status>``; "" for a good one."""

    @property
    def is_good(self) -> bool:
        """True when the site answered and did not say that it is not well."""
        return not self.failure


@dataclass(frozen=True, slots=True)
class SiteHealth:
    """A site after its latest knock. ``is_up`` None: not known yet."""

    is_up: bool | None = None
    streak: int = 0
    """Failed knocks since the last good one."""
    knocks: tuple[Knocked, ...] = ()
    """The latest ones, oldest first."""

    def after(self, knock: Knocked) -> SiteHealth:
        """The site after one more knock."""
        kept = tuple(each for each in self.knocks if each.at > knock.at - KEPT_MS)[-KEPT + 1 :]
        if knock.is_good:
            return SiteHealth(True, 0, (*kept, knock))
        streak = self.streak + 1
        return SiteHealth(False if streak >= STREAK else self.is_up, streak, (*kept, knock))
