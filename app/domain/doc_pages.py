"""Which documents a running server shows, and where: the guides, what they lead to, and the release notes.

Belongs here: names, sources, the place a link between sources leads to. Not here: rendering (services/docs.py).
Source: PAG-194, PAG-200, PAG-203.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Final

NEWS: Final = "/progress"


@dataclass(frozen=True, slots=True)
class DocPage:
    """One page."""

    path: str
    """Its address on this server."""
    source: str
    """Its file, from the root of the release."""
    title: str
    lang: str = "en"


_ENGLISH: Final = (
    DocPage("/docs", "docs/README.md", "Guides"),
    DocPage("/docs/operations", "docs/operations.md", "Operations guide"),
    DocPage("/docs/integration", "docs/integration.md", "Integration guide"),
    DocPage("/docs/inline", "docs/integration-inline.md", "Inline"),
    DocPage("/docs/fleet", "docs/operations-fleet.md", "Several instances"),
    DocPage("/docs/backup", "docs/operations-backup.md", "Backup and restore"),
    DocPage("/docs/alerts", "docs/operations-alerts.md", "Alerts"),
    DocPage("/docs/monitoring", "docs/monitoring.md", "Monitoring"),
    DocPage("/docs/deploy", "docs/deploy.md", "Deploying"),
    DocPage("/docs/settings", "docs/reference/settings.md", "Settings"),
    DocPage("/docs/admin-api", "docs/reference/http.md", "Admin API"),
    DocPage("/docs/metrics", "docs/reference/metrics.md", "Metrics"),
    DocPage("/docs/draw", "docs/reference/draw.md", "The draw"),
)
_THAI: Final = (
    DocPage("/docs/th", "docs/th/README.md", "คู่มือ", "th"),
    DocPage("/docs/th/operations", "docs/th/operations.md", "คู่มือผู้ดูแลระบบ", "th"),
    DocPage("/docs/th/integration", "docs/th/integration.md", "คู่มือการเชื่อมต่อ", "th"),
)
_NEWS: Final = DocPage(NEWS, "CHANGELOG.md", "What changed")
PAGES: Final = {page.path: page for page in (*_ENGLISH, *_THAI, _NEWS)}
"""Every page by its address."""
EXAMPLES: Final = {
    f"/docs/files/{posixpath.basename(source)}": source
    for source in (
        "docs/deploy/Dockerfile",
        "docs/deploy/compose.yaml",
        "docs/deploy/kubernetes.yaml",
        "docs/deploy/queue-manager.service",
        "docs/monitoring/alerts.yml",
        "docs/monitoring/dashboard.json",
        "docs/monitoring/prometheus.yml",
    )
}
"""Files that the guides hand out, by their address."""
_PLACES: Final = {page.source: page.path for page in PAGES.values()} | {
    source: path for path, source in EXAMPLES.items()
}


def counterpart(page: DocPage) -> DocPage | None:
    """The same page in the other language, None where there is none."""
    if page.lang == "th":
        return PAGES["/docs" + page.path.removeprefix("/docs/th")]
    return PAGES.get(page.path.replace("/docs", "/docs/th", 1)) if page.path.startswith("/docs") else None


def place_of(link: str, page: DocPage) -> str | None:
    """Where a link in ``page``'s source leads on this server; None for a file that is not served.

    An address of the web and a place in the same page stay as they are.
    """
    target, hash_sign, anchor = link.partition("#")
    if not target or "://" in target or target.startswith("mailto:"):
        return link
    source = posixpath.normpath(posixpath.join(posixpath.dirname(page.source), target))
    place = _PLACES.get(source)
    return None if place is None else place + hash_sign + anchor
