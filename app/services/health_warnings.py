"""What is said of settings and surroundings that are not as they should be: sentences and config warnings.

Not here: incidents (standing.py), advice (hardening.py). Source: OBS-036, ADM-270, CFG-014.
"""

from __future__ import annotations

from app.core.runtime import Runtime
from app.core.settings import ConfigWarning
from app.domain.keyring import Keyring
from app.infrastructure.metric_book import MetricBook
from app.services.health_of_stores import clock_warnings
from app.services.inline import Inline
from app.services.instances import Instances
from app.services.recovery_notes import read_notes
from app.services.undeclared import UndeclaredPeers


class HealthWarnings:
    """What an operator should look at."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        book: MetricBook,
        keyring: Keyring,
        undeclared: UndeclaredPeers,
        instances: Instances,
        inline: Inline | None,
    ) -> None:
        self._runtime = runtime
        self._book = book
        self._keyring = keyring
        self._undeclared = undeclared
        self._instances = instances
        self._inline = inline

    def sentences(self) -> list[str]:
        """``warnings``: each of them raises the badge of the console."""
        config = [warning.message for warning in self.config() if warning.raises_badge]
        ahead, _ = read_notes(self._book)
        return [
            *config,
            *self._undeclared.sentences(),
            *self._secrets_apart(),
            *(one.warning for one in ahead),
            *clock_warnings(self._book),
        ]

    def _secrets_apart(self) -> list[str]:
        """Living instances that cannot verify what this one signs, or this one what they sign (CFG-014)."""
        fleet, kids = self._instances.last, self._keyring.kids
        if fleet is None:
            return []
        own = self._runtime.instance_id
        return [
            f"instances sign with different SECRETs: {own} ({kids[0]}) and {other.instance} ({other.kid})"
            for other in fleet.live
            if other.run != self._runtime.run_name
            and (other.kid not in kids or kids[0] not in other.figures.get("kids", (kids[0],)))
        ]

    def config(self) -> list[ConfigWarning]:
        """``configWarnings``: settings that could not be used as written, or do not fit together."""
        inline = [] if self._inline is None else self._inline.warnings()
        return [*self._runtime.warnings, *self._undeclared.config_warnings(), *inline]
