"""Proxies that are not set up as they should be: those nobody declared, and chains shorter than TRUST_PROXY says.

Everybody behind an undeclared proxy shares its address. Belongs here: which peers are marked, what health says of them,
whose page budget rests (VIS-023, VIS-024, CFG-117 … CFG-123, CFG-230). Not here: whose headers are believed
(domain/client_address.py), which no mark ever changes.
"""

from __future__ import annotations

from typing import Any, Final

import structlog

from app.core.clock import mono
from app.core.settings import ConfigWarning, Settings
from app.domain.budget import UNLIMITED, Budget
from app.domain.client_address import Client, Note
from app.domain.net_ranges import Network, address_text, pack_address
from app.infrastructure.rate_limiter import RateLimiter

A_MINUTE: Final = 10
"""Requests with such a header within a minute that mark their peer; one that was forged does not."""
KEPT_SEC: Final = 600.0
MAX_KEPT: Final = 4096
MAX_EXEMPT: Final = 1024
TOLD_EVERY_MS: Final = 600_000
_COUNTED_TO: Final = 1_000_000
"""Far above what one peer can send in a minute, so that the count itself refuses nothing."""

log = structlog.get_logger(__name__)


class UndeclaredPeers:
    """The marks of one process; the counts behind them, and what is told of them, are those of the instance."""

    def __init__(self, limiter: RateLimiter, settings: Settings) -> None:
        self._limiter = limiter
        self._until: dict[bytes, float] = {}
        self._exempt: set[bytes] = set()
        self._most_exempt = max(1, MAX_EXEMPT // limiter.workers)
        limit = settings.waiting_limit_per_min
        self._exempt_from = min(A_MINUTE, limit) if limit else A_MINUTE
        self._tells_apart = bool(settings.edge_secret or (settings.trust_proxy and settings.trust_proxy_ips))
        """A way is declared by which visitors come, and each has his own address: no budget ever rests (VIS-084)."""
        self._settings = settings
        self._present = [_entry(network) for network in settings.trust_proxy_ips]

    def saw(self, client: Client) -> None:
        """Note one request whose client has a note (``Client.note``); counts each time it is called."""
        if client.note & Note.FORWARDED:
            count = self._count(client.key)
            if count >= self._exempt_from and not self._tells_apart:
                self._exempt_peer(client.key)
            if count >= A_MINUTE:
                self._mark(client)
        elif client.note & Note.SHORT_CHAIN and self._count(b"short" + client.peer.encode()) >= A_MINUTE:
            self._limiter.lists["short_chain"].note(_packed(client.peer))

    def is_marked(self, client: Client) -> bool:
        """Tell whether the address of ``client`` tells nobody apart."""
        until = self._until.get(client.key)
        if until is None or client.declared:
            return False
        if until > mono():
            return True
        del self._until[client.key]
        return False

    def page_budget(self, group: str, client: Client) -> Budget:
        """Take one page of the address's budget; none is counted for a peer whose budget rests (CFG-123)."""
        if client.note & Note.FORWARDED and self._limiter.gauge_count("exempt", client.key):
            return UNLIMITED
        return self._limiter.take(group, client.key, self._settings.waiting_limit_per_min)

    @property
    def exempt(self) -> int:
        """How many addresses have no page budget."""
        return self._limiter.gauge_total("exempt")

    def proxy_block(self) -> dict[str, Any]:
        """``proxy`` of ``GET /api/admin/health``."""
        settings = self._settings
        peers = self._peers("undeclared")
        is_ignored = bool(settings.edge_secret and (settings.trust_proxy or settings.trust_proxy_ips))
        is_half = bool(settings.trust_proxy) != bool(settings.trust_proxy_ips) and not settings.edge_secret
        return {
            "ok": not is_half and not peers,
            "trustProxy": settings.trust_proxy,
            "trustProxyIps": self._present,
            "incomplete": is_half,
            "ignored": is_ignored,
            "forwardedFromUndeclaredPeer": bool(peers),
            "undeclaredPeers": peers,
            "suggestion": self._line(peers[0]) if peers else None,
        }

    def sentences(self) -> list[str]:
        """One for each undeclared proxy of the last ten minutes."""
        return [self._sentence(peer) for peer in self._peers("undeclared")]

    def config_warnings(self) -> list[ConfigWarning]:
        """What the requests of the last ten minutes say of TRUST_PROXY."""
        hops = self._settings.trust_proxy
        found = []
        for peer in self._peers("short_chain"):
            message = (
                f"TRUST_PROXY={hops}, but {peer} sends fewer entries in X-Forwarded-For: "
                "then each visitor chooses his own address. Set TRUST_PROXY to the real number of proxies."
            )
            found.append(ConfigWarning("hops_too_many", "TRUST_PROXY", str(hops), hops, message))
        return found

    def _count(self, key: bytes) -> int:
        budget = self._limiter.take("undeclared", key, _COUNTED_TO)
        return _COUNTED_TO - budget.remaining

    def _mark(self, client: Client) -> None:
        if client.key not in self._until and len(self._until) >= MAX_KEPT:
            self._until.clear()
        self._until[client.key] = mono() + KEPT_SEC
        self._limiter.lists["undeclared"].note(client.packed)
        counters, now_ms = self._limiter.counters, int(mono() * 1000)
        told_at = counters.latest("undeclared_told_at")
        if not told_at or now_ms - told_at >= TOLD_EVERY_MS:
            counters.put("undeclared_told_at", now_ms)
            log.warning("undeclared_proxy_found", peer=client.peer, set=self._line(client.peer))

    def _exempt_peer(self, key: bytes) -> None:
        """For good: a budget that came and went would shut some of the visitors out some of the time."""
        if key in self._exempt or self._limiter.gauge_count("exempt", key):
            return
        if len(self._exempt) >= self._most_exempt:
            for known in self._exempt:
                self._limiter.gauge_leave("exempt", known)
            self._exempt.clear()
        self._exempt.add(key)
        self._limiter.gauge_enter("exempt", key, per_key=0, in_all=0)

    def _peers(self, name: str) -> list[str]:
        return [address_text(packed) for packed in self._limiter.lists[name].recent(KEPT_SEC)]

    def _line(self, peer: str) -> str:
        return f"TRUST_PROXY_IPS={','.join([*self._present, peer])}"

    def _sentence(self, peer: str) -> str:
        hops = "" if self._settings.trust_proxy else " and TRUST_PROXY=1"
        return (
            f"Forwarding headers come from {peer}, which is not in TRUST_PROXY_IPS: everybody behind it counts as one "
            f"address. Check that it is your own load balancer or CDN, then set {self._line(peer)}{hops}: a stranger "
            "who is listed may choose his own address."
        )


def _entry(network: Network) -> str:
    """A range as an operator writes it; a single address without its length."""
    is_single = network.prefixlen == network.max_prefixlen
    return str(network.network_address) if is_single else str(network)


def _packed(peer: str) -> bytes:
    return pack_address(peer) or bytes(16)
