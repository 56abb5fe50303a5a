"""The values in use, as ``GET /api/admin/health`` shows them: settings, limits, keys, and what they refused.

Not here: what is wrong with them (health_warnings.py). Source: CFG-009, CFG-123, CFG-143, OBS-036.
"""

from __future__ import annotations

from typing import Any

from app.core import metrics
from app.core.runtime import Runtime
from app.domain.alerts import Severity
from app.domain.keyring import Keyring
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.rate_limiter import RateLimiter
from app.services.fleet_counts import OUTCOMES, Sums
from app.services.metrics import kept_by_budget, refused_by_budget
from app.services.undeclared import UndeclaredPeers


class HealthOfSettings:
    """Blocks about how this instance is set up."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        book: MetricBook,
        limiter: RateLimiter,
        keyring: Keyring,
        undeclared: UndeclaredPeers,
    ) -> None:
        self._runtime = runtime
        self._book = book
        self._limiter = limiter
        self._keyring = keyring
        self._undeclared = undeclared

    def config_block(self) -> dict[str, Any]:
        """``config``: every variable, its value in use and where that came from; of a secret whether it is set."""
        given = self._runtime.given
        return {
            name: {"value": value, "from": "env" if name in given else "default"}
            for name, value in self._runtime.settings.shown().items()
        }

    def protection_block(self, sums: Sums) -> dict[str, Any]:
        """``protection``: mode, thresholds and outcomes of the fleet."""
        settings = self._runtime.settings
        thresholds = {"warnAt": settings.protection_warn_at, "blockAt": settings.protection_block_at}
        return {"mode": settings.protection_mode, **thresholds, **{name: sums.protection[name] for name in OUTCOMES}}

    def sse_block(self) -> dict[str, Any]:
        """``sse``: open streams of this instance beside their caps (ADM-271)."""
        settings, counters = self._runtime.settings, self._limiter.counters
        return {
            "visitors": self._limiter.gauge_total("sse"),
            "admin": self._book.total(metrics.SSE, "admin"),
            "perIp": settings.sse_per_ip,
            "maxTotal": settings.sse_max_total,
            "refusedTotal": counters.total("sse_refused"),
        }

    def limits_block(self) -> dict[str, Any]:
        """``limits``: each budget of an address, and how many requests it refused."""
        settings = self._runtime.settings
        return {
            "joinPerMin": settings.join_limit_per_min,
            "checkPerMin": settings.check_limit_per_min,
            "statusPerMin": settings.status_limit_per_min,
            "waitingPerMin": settings.waiting_limit_per_min,
            "notifyPerMin": settings.notify_limit_per_min,
            "verifyPerMin": settings.verify_limit_per_min,
            "adminAuthFailPerMin": settings.admin_auth_fail_per_min,
            "maxKeys": settings.rate_limit_max_keys,
            "addressesKept": kept_by_budget(self._limiter),
            "refusedTotal": refused_by_budget(self._limiter),
        }

    def waiting_page_block(self) -> dict[str, Any]:
        """The page budget, and whether it rests for somebody behind an undeclared proxy (CFG-123)."""
        limit, exempt = self._runtime.settings.waiting_limit_per_min, self._undeclared.exempt
        return {
            "enforced": limit > 0 and not exempt,
            "limitPerMin": limit,
            "exemptAddresses": exempt,
            "refusedTotal": refused_by_budget(self._limiter)["waiting"],
        }

    def alerting_block(self) -> dict[str, Any]:
        """Whether anybody is told, and how many alerts there are, as of the last look."""
        book, settings = self._book, self._runtime.settings
        own = int(book.latest(metrics.VALKEY_ALERT_SINCE) > 0)
        return {
            "configured": settings.alert_webhook_url is not None and not settings.drill,
            "firing": own + sum(book.total(metrics.ALERTS_FIRING, severity.value) for severity in Severity),
            "pending": book.total(metrics.ALERTS_PENDING),
        }

    def keys_block(self) -> dict[str, Any]:
        """States of the keys and the public names of the two secrets (CFG-143)."""
        kids = (*self._keyring.kids, None)
        return {
            **_camel(self._runtime.key_states),
            "kid": kids[0],
            "kidPrevious": kids[1],
            "tokenSignV2": self._runtime.settings.token_sign_v2,
        }


def _camel(states: dict[str, str]) -> dict[str, str]:
    """``SECRET_PREVIOUS`` → ``secretPrevious``."""
    words = {name: name.lower().split("_") for name in states}
    return {first + "".join(map(str.capitalize, rest)): states[name] for name, (first, *rest) in words.items()}
