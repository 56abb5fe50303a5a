"""One Node process that runs the delivered Worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.services.connector_files import ConnectorFiles
from tests.connectors.edge import Edge


@pytest.fixture(scope="package")
def the_edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """The Worker as it is downloaded."""
    found = ConnectorFiles().get("cloudflare", "latest.js")
    assert found is not None
    worker: Path = tmp_path_factory.mktemp("edge") / "worker.mjs"
    worker.write_bytes(found.body)
    with Edge(worker) as edge:
        yield edge


@pytest.fixture
def edge(the_edge: Edge) -> Edge:
    """The same, as if it had just been deployed."""
    the_edge.reset()
    return the_edge
