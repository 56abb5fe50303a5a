"""Made-up requests to every route of the description: never a failure, and always an answer that it describes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from blueprints.admin import ROUTER
from blueprints.admin.openapi import whole_document
from blueprints.visitor.openapi import public_document
from tests.fuzz.api import NO_RIGHT, PUBLIC_KEY, Api, enliven
from tests.harness import Server

ENDS = ("POST", "/api/admin/shutdown")
"""A server that obeys it answers nothing any more."""
OPERATIONS = [
    (method.upper(), path)
    for path, item in whole_document(ROUTER.routes)["paths"].items()
    for method in item
    if (method.upper(), path) != ENDS
]
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
LOOKS: tuple[dict[str, str], ...] = (
    {},
    {"Sec-Fetch-Mode": "navigate", "Accept": "text/html", "Accept-Language": "th;q=0.9,\xff"},
    {"Origin": "https://shop.example", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "null", "Content-Type": "text/plain"},
    {"Cookie": 'qm_busy=a.b; qm_console=x; qm_dk_busy="\xe9; qms_busy=; =;;'},
    {"User-Agent": "\x80\xff", "X-QM-Door-Key": "k" * 300, "If-None-Match": '*, W/"'},
    {"X-Forwarded-For": "1.2.3.4, ::ffff:10.0.0.1", "X-QM-CSRF": "1", "If-Match": '"\xe9"'},
)


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """One server for all routes; the harness has the limits off."""
    with Server(env={"PUBLIC_API_KEY": PUBLIC_KEY}, workers=1) as server:
        yield Api(server)
        assert "request_failed" not in server.stderr


def test_it_tells_anyone_of_visitor_routes_and_viewers_of_all(api: Api) -> None:
    own = requests.get(f"{api.server.url}/api/openapi.json", timeout=20)
    alias = requests.get(f"{api.server.url}/api/v1/openapi.json", timeout=20)
    refused = requests.get(f"{api.server.url}/api/admin/openapi.json", timeout=20)

    assert own.json() == alias.json() == public_document()
    assert own.headers["Content-Type"] == "application/json; charset=utf-8"
    assert not any(path.startswith("/api/admin") for path in own.json()["paths"])
    assert api.document == whole_document(ROUTER.routes)
    assert refused.status_code == 401


def fuzz(api: Api, method: str, path: str, examples: int) -> None:
    """Send made-up requests to one route: such as it takes, and, where it has a query or body, such as it refuses."""
    operation = api.schema[path][method]
    is_admin, has_form = path.startswith("/api/admin"), bool(operation.body or list(operation.query))
    rights = [f"Bearer {api.server.admin_key}"] * 8 if is_admin else [f"Bearer {PUBLIC_KEY}"] * 3
    limits = settings(
        max_examples=examples if has_form or operation.path_parameters else len(LOOKS),
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )

    def run(data: st.DataObject, mode: GenerationMode) -> None:
        case = data.draw(operation.as_strategy(generation_mode=mode))
        api.furnish()
        enliven(api, case, data.draw)
        api.is_furnished = not is_admin or method == "GET"
        api.send(case, data.draw(st.sampled_from([*rights, *NO_RIGHT])), data.draw(st.sampled_from(LOOKS)))

    for mode in MODES[: 2 if has_form else 1]:
        limits(given(st.data(), st.just(mode))(run))()


@pytest.mark.req("VIS-036", "ADM-017")
@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=[" ".join(pair) for pair in OPERATIONS])
def test_it_answers_whatever_it_is_sent_as_it_is_described(api: Api, method: str, path: str) -> None:
    fuzz(api, method, path, examples=5)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=[" ".join(pair) for pair in OPERATIONS])
def test_it_answers_thousands_of_requests_as_it_is_described(api: Api, method: str, path: str) -> None:
    fuzz(api, method, path, examples=150)
