"""Names of headers that the proxy sets, strips or judges (INL-119 … INL-127, INL-233, INL-234).

All in lower case, spelled with ``-``. Needs a second reviewer.
"""

from __future__ import annotations

from typing import Final

OWN_COOKIE: Final = b"qm_console"
"""The console's session: it never crosses the proxy (INL-137)."""
HOP_MARK: Final = b"x-qm-hop"

OVERRIDES: Final = frozenset(
    b"x-original-url x-rewrite-url x-original-uri x-forwarded-uri x-forwarded-path x-request-uri "
    b"x-envoy-original-path x-http-method-override x-http-method x-method-override".split()
)
"""By which some apps take another path or method than the request line's (INL-233)."""
SET_HERE: Final = frozenset(b"x-forwarded-host x-forwarded-proto x-forwarded-port x-forwarded-for".split())
CLIENT_CLAIMS: Final = frozenset(
    b"forwarded x-real-ip cf-connecting-ip true-client-ip cf-connecting-ipv6 cf-pseudo-ipv4 x-client-ip "
    b"x-cluster-client-ip fastly-client-ip x-forwarded-scheme x-forwarded-ssl x-forwarded-server x-forwarded-prefix "
    b"x-original-host x-host proxy-client-ip wl-proxy-client-ip".split()
)
"""What only a declared proxy may say of a visitor (INL-123, INL-124)."""
HOP_BY_HOP: Final = frozenset(
    b"connection keep-alive proxy-connection proxy-authenticate proxy-authorization te trailer transfer-encoding "
    b"upgrade expect http2-settings".split()
)
"""Not forwarded (INL-127, INL-129, INL-156); ``te: trailers`` and an upgrade are written anew."""
OURS: Final = frozenset({b"x-qm-edge", HOP_MARK})
NEVER_NAMED: Final = frozenset(b"host content-length cookie".split())
"""``Connection`` naming one of these takes nothing away: the gate judged by them."""
JUDGED: Final = OVERRIDES | SET_HERE | CLIENT_CLAIMS | OURS | {b"x-qm-request-id"}


def is_disguised(name: bytes) -> bool:
    """Tell whether a lower-case ``name`` is one of those above to a reader that takes ``_`` for ``-`` (INL-234)."""
    if b"_" not in name:
        return False
    plain = name.replace(b"_", b"-")
    return plain in JUDGED or plain.startswith(b"x-forwarded-")
