"""Status of every error code that this build answers with. Source: the table of all error codes of docs/spec/00."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_BY_STATUS: Final = {
    400: "bad_host bad_json bad_request conflicting_field missing_agent missing_ip missing_room not_in_this_build "
    "nothing_to_change opens_at_in_past proxy_origin_loop proxy_origin_private target_url_required unknown_field "
    "range_too_large",
    401: "credential_in_query unauthorized",
    403: "blocked_by_protection cross_site csrf_required edge_required inline_requires_owner insufficient_role "
    "monitor_cannot_sign_in origin_not_allowed step_up_other_person step_up_required",
    404: "no_link no_operator no_room no_ticket not_found not_inline_host notify_disabled",
    405: "method_not_allowed",
    409: "alert_webhook_not_set ambiguous_ref below_fleet_minimum operator_revoked previous_generation "
    "proxy_origin_conflict room_bypassed room_scheduled stale_room too_many_links too_many_operators",
    410: "link_not_live",
    413: "body_too_large",
    429: "busy prequeue_identity_limit queue_identity_limit rate_limited sse_limit too_many_auth_failures",
    500: "internal_error",
    501: "upgrade_not_supported",
    503: "heavy_unavailable line_full overloaded sse_full storage_unavailable too_many_streams",
}
STATUS: Final[Mapping[str, int]] = {code: status for status, codes in _BY_STATUS.items() for code in codes.split()}


def status_of(code: str) -> int:
    """Status of an error code; KeyError for one that is not in the table. ``invalid_<field>`` is always 400."""
    return 400 if code.startswith("invalid_") else STATUS[code]
