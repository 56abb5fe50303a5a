"""What becomes of the end of a hot handler: the bytes of its answer, or of its refusal, and their count."""

from __future__ import annotations

from blueprints.edge.reply import HotReply, render
from blueprints.edge.request import HotRequest
from blueprints.edge.state import EdgeState
from blueprints.errors import error_reply


def answer_bytes(
    edge: EdgeState, request: HotRequest, reply: HotReply | None, error: BaseException | None, is_kept: bool
) -> bytes:
    """The answer to one request, ready for one write. ``is_kept``: the connection goes on after it."""
    edge.requests += 1
    meters = edge.meters
    if reply is not None:
        try:
            answer = render(reply, request.request_id, is_kept, request.method == "HEAD", request.budget)
            if meters is not None:
                meters.of(request.path).note(reply.status, request.began)
            return answer
        except Exception as failure:  # a reply of the wrong types is the handler's fault
            error = failure
    budget = request.budget
    reply = error_reply(
        error if error is not None else RuntimeError("a hot handler gave no reply"),
        request.headers,
        request_id=request.request_id,
        path=request.path,
        page=edge.error_page,
        drop_limits=budget is not None and not budget.allowed,
    )
    if meters is not None:
        meters.of(request.path).note(reply.status, request.began)
    return render(reply, request.request_id, is_kept, request.method == "HEAD", request.budget)
