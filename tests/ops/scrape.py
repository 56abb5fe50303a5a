"""Reading ``/metrics`` as Prometheus would."""

from __future__ import annotations

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.harness import Server

Series = dict[tuple[str, ...], float]


class Scrape:
    """One answer. ``value("qm_joins_total", room="shop")``."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                # This reader puts a suffix to every counter; one has none (OBS-056).
                name = sample.name if sample.name != "qm_edge_refused_total" else "qm_edge_refused"
                key = name, frozenset(sample.labels.items())
                assert key not in self.samples, f"{key} twice"
                self.samples[key] = sample.value

    def value(self, name: str, **labels: str) -> float | None:
        """Value of one series, None when it is absent."""
        return self.samples.get((name, frozenset(labels.items())))

    def of(self, name: str) -> dict[frozenset[tuple[str, str]], float]:
        """All series of one name by their labels."""
        return {labels: value for (found, labels), value in self.samples.items() if found == name}


def scrape(server: Server, path: str = "/metrics") -> Scrape:
    """Ask over a connection of its own, so that any worker may answer."""
    answer = httpx.get(server.url + path, headers={"Authorization": f"Bearer {server.admin_key}"})
    assert answer.status_code == 200, answer.text
    return Scrape(answer.text)
