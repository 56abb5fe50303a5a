"""Every series of ``/metrics``, declared once: name, type, help, labels, and the requirement it comes from.

Belongs here: declarations. Not here: the memory the numbers lie in (infrastructure/metric_book.py), the answer
(services/metrics.py). ``docs/reference/metrics.md`` is written from this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

BOUNDS_SEC: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of a histogram's buckets (OBS-102); a last one without bound follows."""


class Kind(StrEnum):
    """Type of a series, as ``# TYPE`` spells it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One series. ``source``: id of its requirement."""

    name: str
    kind: Kind
    help: str
    source: str
    labels: tuple[str, ...] = ()


METRICS: Final[list[Metric]] = []
"""All of them, in the order of the answer."""


def _declare(kind: Kind, name: str, source: str, text: str, *labels: str) -> Metric:
    metric = Metric(name, kind, text, source, labels)
    METRICS.append(metric)
    return metric


def _gauge(name: str, source: str, text: str, *labels: str) -> Metric:
    return _declare(Kind.GAUGE, name, source, text, *labels)


def _counter(name: str, source: str, text: str, *labels: str) -> Metric:
    return _declare(Kind.COUNTER, name, source, text, *labels)


ROOM: Final = "room"

ROOM_WAITING = _gauge("qm_room_waiting", "OBS-057", "Tickets waiting in the line.", ROOM)
ROOM_PREQUEUE = _gauge("qm_room_prequeue", "OBS-058", "Visitors in the pre-queue.", ROOM)
ROOM_ACTIVE = _gauge("qm_room_active_sessions", "OBS-059", "Sessions on the protected site.", ROOM)
ROOM_PENDING = _gauge(
    "qm_room_pending_entry", "OBS-060", "Unused passes inside their claim window that hold a slot.", ROOM
)
ROOM_OCCUPANCY = _gauge("qm_room_occupancy", "OBS-061", "Active sessions and pending entries.", ROOM)
ROOM_PASSES = _gauge("qm_room_passes_outstanding", "OBS-062", "Valid, unused passes that hold no slot.", ROOM)
ROOM_MAX = _gauge("qm_room_max_concurrent", "OBS-063", "Cap of the occupancy; +Inf without one.", ROOM)
ROOM_RATE = _gauge("qm_room_rate_per_minute", "OBS-064", "Set rate; +Inf without one.", ROOM)
ROOM_JOINS = _gauge("qm_room_joins_last_minute", "OBS-065", "Joins in the last 60 s.", ROOM)
ROOM_PASSED = _gauge("qm_room_passed_last_minute", "OBS-066", "Passes given in the last 60 s.", ROOM)
ROOM_OLDEST = _gauge(
    "qm_room_oldest_wait_seconds", "OBS-067", "Wait of the ticket at the head of the line; 0 when nobody waits.", ROOM
)
ROOM_STATE = _gauge("qm_room_state", "OBS-068", "1 for the effective state, 0 for the others.", ROOM, "state")

ROOMS = _gauge("qm_rooms", "OBS-069", "Rooms that exist.")
SSE = _gauge("qm_sse_subscribers", "OBS-070", "Open streams.", "kind")
CONNECTIONS = _gauge("qm_connections_open", "OBS-071", "Open client connections.")
CONNECTIONS_LIMIT = _gauge("qm_connections_limit", "OBS-071", "MAX_CONNECTIONS; +Inf without one.")
UPTIME = _gauge("qm_uptime_seconds", "OBS-072", "Seconds since the start.")
START_TIME = _gauge("qm_process_start_time_seconds", "OBS-073", "Start, epoch seconds.")
SHUTTING_DOWN = _gauge("qm_shutting_down", "OBS-074", "1 while stopping.")
READY = _gauge("qm_ready", "OBS-075", "1 when this instance should get traffic, as /healthz says.")
DEGRADED = _gauge("qm_degraded", "OBS-075", "1 when something is wrong, as /healthz says.")
LEADER = _gauge("qm_leader", "OBS-076", "1 on the leader.")
STORAGE_OK = _gauge("qm_storage_ok", "OBS-077", "1 when the journal takes commits.")
BACKEND_UP = _gauge("qm_backend_up", "OBS-078", "1 when this instance reaches Valkey.")
RECOVERING = _gauge("qm_recovering_rooms", "OBS-078", "Rooms that are being rebuilt.")
PENDING_EVENTS = _gauge("qm_journal_pending_events", "OBS-079", "Facts that are not committed yet.")
OLDEST_PENDING = _gauge("qm_journal_oldest_pending_seconds", "OBS-079", "Age of the oldest of them.")
MEMORY = _gauge("qm_resident_memory_bytes", "OBS-080", "Resident memory of all processes of the instance.")
ALERTS_FIRING = _gauge("qm_alerts_firing", "OBS-081", "Alerts that are firing.", "severity")
BUILD_INFO = _gauge("qm_build_info", "OBS-082", "Always 1.", "version", "build")

WRITE_ERRORS = _counter("qm_storage_write_errors_total", "OBS-083", "Failed journal commits.")
UNKNOWN_ROOMS = _counter("qm_unknown_room_checks_total", "OBS-084", "Checks of rooms that do not exist.")
BLOCKED_RETURN_URLS = _counter("qm_blocked_return_urls_total", "OBS-085", "Return URLs refused, all rooms together.")
REFUSED_KEYS = _counter(
    "qm_refused_key_checks_total", "OBS-086", "Vouched checks refused for their key, by room.", ROOM
)
REFUSED_KEYS_ALL = _counter(
    "qm_refused_key_checks_all_total", "OBS-086", "Vouched checks refused for their key, unknown rooms included."
)
REFUSED_ORIGINS = _counter(
    "qm_refused_origin_checks_total", "OBS-087", "Checks whose page origin the tag policy does not cover.", ROOM
)
LIMITED_CHECKS = _counter("qm_rate_limited_checks_total", "OBS-088", "Checks answered 429, by room.", ROOM)
LIMITED_CHECKS_ALL = _counter("qm_rate_limited_checks_all_total", "OBS-088", "Checks answered 429.")
REJECTED_TOKENS = _counter(
    "qm_rejected_tokens_total", "OBS-089", "Refused visitor tokens, by room and cause.", ROOM, "reason"
)
REJECTED_TOKENS_ALL = _counter("qm_rejected_tokens_all_total", "OBS-089", "Refused visitor tokens.")
RATE_LIMITED = _counter("qm_rate_limited_total", "OBS-090", "Requests over an address budget.", "budget")
AUTH_FAILURES = _counter("qm_admin_auth_failures_total", "OBS-091", "Wrong admin credentials.")
EDGE_REFUSED = _counter("qm_edge_refused", "OBS-092", "Requests refused for X-QM-Edge.")
EDGE_NO_ADDRESS = _counter(
    "qm_edge_client_ip_fallback_total", "OBS-093", "Passing requests whose edge named no usable client address."
)
BACKEND_DOWN = _counter(
    "qm_proxy_backend_down_total", "OBS-094", "Answers for an inline room while its backend was down.", "mode"
)
PROXY_GATED = _counter("qm_proxy_gated_total", "OBS-095", "Inline requests that were checked.", ROOM)
PROXY_BYPASSED = _counter("qm_proxy_bypassed_total", "OBS-095", "Inline requests that passed by the gate.", ROOM)
ORIGIN_ERRORS = _counter("qm_proxy_origin_errors_total", "OBS-096", "Origin failures by class.", ROOM, "class")
CLIENT_ABORTS = _counter("qm_proxy_client_aborts_total", "OBS-097", "Visitors who hung up.", ROOM)
CONNECTIONS_REFUSED = _counter(
    "qm_connections_refused_total", "OBS-098", "Connections and requests refused at the connection cap."
)
PROXY_OVERLOADED = _counter("qm_proxy_overloaded_total", "OBS-098", "Those of them on inline hosts.")
JOINS = _counter("qm_joins_total", "OBS-099", "Joins.", ROOM)
PASSES = _counter("qm_passes_total", "OBS-099", "Passes given.", ROOM)
ADMISSIONS = _counter("qm_admissions_total", "OBS-099", "Admissions.", ROOM)
EJECTIONS = _counter("qm_ejections_total", "OBS-099", "Ejections.", ROOM)
PROTECTION = _counter(
    "qm_protection_decisions_total", "OBS-100", "Decisions of bot protection on newcomers.", ROOM, "decision"
)
HTTP_REQUESTS = _counter(
    "qm_http_requests_total", "OBS-101", "Requests answered, by route pattern and class of status.", "route", "status"
)
HTTP_SECONDS = _declare(
    Kind.HISTOGRAM, "qm_http_request_seconds", "OBS-102", "Time to the first byte of our own answers.", "route"
)
COMMITS = _counter("qm_journal_commits_total", "OBS-103", "Group commits to the journal.")
COMMIT_SECONDS = _declare(Kind.HISTOGRAM, "qm_journal_commit_seconds", "OBS-103", "Time of a group commit.")
REBUILDS = _counter("qm_room_rebuilds_total", "OBS-104", "Rebuilds of lost rooms.", "result")
ALERT_DELIVERIES = _counter(
    "qm_alert_deliveries_total", "OBS-105", "Attempts to deliver a notice to ALERT_WEBHOOK_URL.", "result"
)
CLOCK_JUMPS = _counter("qm_clock_jumps_total", "OBS-106", "Wall-clock jumps over 5 s.")
JOINS_REFUSED = _counter("qm_joins_refused_total", "OBS-192", "Joins refused for want of room.", ROOM, "reason")
SHARED_SESSIONS = _counter(
    "qm_shared_session_refusals_total", "OBS-192", "Checks refused because too many addresses use a session.", ROOM
)
BYPASS_REFUSED = _counter(
    "qm_proxy_bypass_refused_total", "OBS-192", "Bypassed requests that were sent through the gate.", ROOM
)
HEAVY_RUNNING = _gauge("qm_heavy_jobs_running", "BUD-101", "Heavy work that runs now, by kind.", "kind")
HEAVY_SECONDS = _declare(
    Kind.HISTOGRAM, "qm_heavy_job_seconds", "BUD-101", "Time of heavy work that a person asked for, by kind.", "kind"
)
NOTIFY_MAILS = _counter("qm_notify_mails_total", "VIS-180", "Mails to visitors at their turn.", "result")
LOOP_LAG = _declare(
    Kind.HISTOGRAM, "qm_loop_lag_seconds", "BUD-101", "How late a timer of 100 ms fires, by process.", "process"
)
CPU_USABLE = _gauge("qm_cpu_usable", "BUD-101", "CPUs that this instance may really use.")
CPU_SELF = _gauge("qm_cpu_self_ratio", "BUD-101", "Part of them that this instance uses.")
CPU_HOST = _gauge("qm_cpu_host_ratio", "BUD-101", "Part of the machine's CPUs, or of a quota, that is used in all.")
CPU_STEAL = _gauge("qm_cpu_steal_ratio", "BUD-101", "Part of the CPU time that the host took away.")
CPU_THROTTLED = _gauge("qm_cpu_throttled_ratio", "BUD-101", "Part of the quota's periods that were cut short.")
CPU_PRESSURE = _gauge("qm_cpu_pressure_ratio", "BUD-101", "Part of the time in which something waited for a CPU.")
CPU_CONTENTION = _gauge("qm_cpu_contention", "BUD-058", "1 while this instance does not get the CPU that it needs.")
FLEET_INSTANCES = _gauge("qm_fleet_instances", "BUD-101", "Live instances that answer visitors.")
FLEET_DECLARED = _gauge("qm_fleet_instances_declared", "BUD-101", "FLEET_MIN_INSTANCES.")

FACTS: Final[list[Metric]] = []
"""Numbers that the processes of an instance tell each other in the same memory, without a series of their own."""


def _fact(name: str, text: str, *labels: str, kind: Kind = Kind.COUNTER) -> Metric:
    fact = Metric(name, kind, text, "", labels)  # a counter is kept when its process is started again, a gauge is not
    FACTS.append(fact)
    return fact


HEAVY_WAITING = _fact("heavy_waiting", "Pieces of heavy work that wait for their turn.", kind=Kind.GAUGE)
HEAVY_ASKED = _fact("heavy_asked", "Questions to process heavy that a web worker waits for.", kind=Kind.GAUGE)
HEAVY_PAUSED = _fact("heavy_paused", "1 while heavy work rests because of contention.", kind=Kind.GAUGE)
TOKENS_PRESENTED = _fact("tokens_presented", "Requests that brought a visitor token.")
PROBE_ERRORS = _fact("probe_errors", "Probes of the journal that failed.")
LAST_COMMIT_MS = _fact("last_commit_ms", "Latest good commit or probe of the journal, ms of clock.mono.")
LAST_COMMIT_AT = _fact("last_commit_at", "The same, epoch ms.")
LAST_ERROR_MS = _fact("last_error_ms", "Latest failed commit or probe, ms of clock.mono.")
LAST_ERROR_AT = _fact("last_error_at", "The same, epoch ms.")
OLDEST_AT = _fact("oldest_at", "Recorded time of the oldest fact whose commit failed, epoch ms; 0 = none.")
VALKEY_DOWN = _fact("valkey_down", "1 while the process that asks it all the time cannot reach Valkey.")
VALKEY_DOWN_SINCE = _fact("valkey_down_since", "Since when, epoch ms; 0 = it is reached.")
STORAGE_BAD_SINCE = _fact("storage_bad_since", "Since when storage is degraded, epoch ms; 0 = it is well.")
VALKEY_EVER = _fact("valkey_ever", "1 once that process has reached Valkey.")
VALKEY_USED = _fact("valkey_used", "Bytes of memory that Valkey uses.")
VALKEY_MAX = _fact("valkey_max", "Its maxmemory in bytes; 0 = none.")
CLOCK_OFFSET = _fact("clock_offset", "This machine's wall clock less that of Valkey, ms.")
UNREADY = _fact("storage_unready", "Why storage takes this instance out of rotation; see domain/storage_state.py.")
ALERTS_PENDING = _fact("alerts_pending", "Alerts that have not held long enough.")
VALKEY_ALERT_SINCE = _fact("valkey_alert_since", "Since when Valkey is not reached, epoch ms; 0 = nothing fires of it.")
VALKEY_ALERT_FIRED = _fact("valkey_alert_fired", "When that began to fire, epoch ms.")
VALKEY_ALERT_TOLD = _fact("valkey_alert_told", "When it was last told, epoch ms; 0 = never.")
JUMP_AT = _fact("clock_jump_at", "Latest jump of the wall clock, epoch ms after it.")
JUMP_MS = _fact("clock_jump_ms", "How far it jumped in ms, below 0 = back.")
LOOP_P99 = _fact("loop_p99_us", "p99 of the loop delay in a process's last whole window of 5 s, µs.", "process")
LOOP_BEAT = _fact("loop_beat_ms", "When a process's loop last measured its delay, ms of clock.mono.", "process")
CONTENTION_SINCE = _fact("contention_since", "Since when there is CPU contention here, epoch ms; 0 = there is none.")
FLEET_COUNT = _fact("fleet_count", "Live instances that answer visitors, as last read.")
LEADER_EPOCH = _fact("leader_epoch", "Number of the latest term of a leader that this instance knows of.")
