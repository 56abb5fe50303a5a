"""The private parts of Sanic that the edge leans on. When one of these fails after an upgrade, read edge/ again."""

from __future__ import annotations

import inspect

import sanic
from sanic.http import Http, Stage
from sanic.request import Request
from sanic.router import Router
from sanic.server.protocols.base_protocol import SanicProtocol
from sanic.server.protocols.http_protocol import HttpProtocol, HttpProtocolMixin

from blueprints.edge.http import EdgeHttp
from blueprints.edge.protocol import EdgeProtocol


def names_in(function: object) -> str:
    return inspect.getsource(function)  # type: ignore[arg-type]


def test_it_runs_on_the_release_it_was_written_for() -> None:
    assert sanic.__version__.startswith("25.12.")


def test_it_finds_the_stages_of_a_request() -> None:
    assert {stage.name for stage in Stage} == {"IDLE", "REQUEST", "HANDLER", "RESPONSE", "FAILED"}


def test_it_finds_the_members_of_http_that_it_uses() -> None:
    slots = {*Http.__slots__, "request_max_size"}
    used = {
        *("_send", "_receive_more", "recv_buffer", "protocol", "stage", "keep_alive", "head_only", "request"),
        *("exception", "request_body", "request_bytes", "request_bytes_left", "response", "response_func"),
        *("upgrade_websocket", "request_max_size", "expecting_continue"),
    }

    assert used <= slots
    assert {"init_for_request", "http1", "read", "http1_response_header", "__aiter__"} <= set(dir(Http))
    source = names_in(Http.init_for_request)
    assert all(
        f"self.{name} =" in source.replace(": ", " = ") for name in ("exception", "request_body", "request_bytes")
    )
    assert "self.request_max_size = self.protocol.request_max_size" in source


def test_it_replaces_what_reads_requests_and_keeps_what_writes_answers() -> None:
    assert EdgeHttp.http1 is not Http.http1
    assert EdgeHttp.read is not Http.read
    assert EdgeHttp.http1_response_header is Http.http1_response_header
    assert EdgeHttp.__aiter__ is Http.__aiter__
    assert '"keep-alive" if self.keep_alive else "close"' in names_in(Http.http1_response_header)


def test_it_finds_the_members_of_the_protocol_that_it_uses() -> None:
    slots = {*HttpProtocol.__slots__, *SanicProtocol.__slots__}
    used = {
        *("app", "loop", "transport", "connections", "conn_info", "signal", "_can_write", "_time", "_task", "_unix"),
        *("_data_received", "request_handler", "request_class", "request_max_size", "response_timeout", "_http"),
        *("recv_buffer", "_callback_check_timeouts"),
    }

    assert used <= slots
    assert {"connection_task", "receive_more", "send", "abort", "close"} <= set(dir(HttpProtocol))
    assert HttpProtocol.HTTP_CLASS is Http
    assert EdgeProtocol.HTTP_CLASS is EdgeHttp


def test_it_may_start_the_task_of_a_connection_late() -> None:
    assert "self.HTTP_CLASS(self" in names_in(HttpProtocolMixin._setup_connection)
    assert "self._task = self.loop.create_task(self.connection_task())" in names_in(HttpProtocol.connection_made)
    # The server closes idle connections through this, and knows nothing else about them.
    assert "close_if_idle" in inspect.getsource(sanic.server.runners)


def test_it_finds_handlers_through_the_router_s_get() -> None:
    assert list(inspect.signature(Router.get.__wrapped__).parameters) == ["self", "path", "method", "host"]
    assert "self.router.get(" in names_in(sanic.Sanic.handle_request)


def test_it_makes_requests_with_the_arguments_it_knows() -> None:
    parameters = inspect.signature(Request.__init__).parameters

    assert list(parameters)[1:9] == [
        "url_bytes",
        "headers",
        "version",
        "method",
        "transport",
        "app",
        "head",
        "stream_id",
    ]
    assert hasattr(Request, "_current")
