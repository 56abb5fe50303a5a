-- The room's header: one string of 56 doubles. Order = HEADER_FIELDS of app/domain/layout.py (a test compares).
-- Written out field by field: a loop over names costs three times as much, and this runs in every call.

qm.HEADER_FIELDS = {
  "layout", "gen", "epoch", "deleted", "fenced", "t0", "last_time", "mono", "wall", "offset", "last_ticket", "head",
  "removed", "seq", "committed", "cfg_ver", "created_at", "updated_at", "state", "rate", "max_concurrent",
  "passed_ttl", "session_ttl", "session_max", "presence", "ip_cap", "pre_ip_cap", "credit", "last_tick", "active",
  "pending", "passes_out", "flush_up_to", "purge_up_to", "opens_at", "phase", "places", "line_since", "freed_at",
  "second", "now_joins", "now_passes", "now_paid", "now_freed", "min_joins", "min_passes", "min_paid", "min_freed",
  "rescore", "forgotten", "drawn_at", "session_ip_cap", "hour_end", "ended", "auto_joins", "auto_since",
}

local FORMAT = "<dddddddddddddddddddddddddddddddddddddddddddddddddddddddd"
local BYTES = 448

local pack, unpack_
qm.bind(function() pack, unpack_ = struct.pack, struct.unpack end)

-- Table of named fields, or nil when `data` is not of this layout.
function qm.header_read(data)
  if #data ~= BYTES then return nil end
  local
    layout, gen, epoch, deleted, fenced, t0, last_time, mono, wall, offset, last_ticket, head, removed, seq,
    committed, cfg_ver, created_at, updated_at, state, rate, max_concurrent, passed_ttl, session_ttl, session_max,
    presence, ip_cap, pre_ip_cap, credit, last_tick, active, pending, passes_out, flush_up_to, purge_up_to,
    opens_at, phase, places, line_since, freed_at, second, now_joins, now_passes, now_paid, now_freed, min_joins,
    min_passes, min_paid, min_freed, rescore, forgotten, drawn_at, session_ip_cap, hour_end, ended, auto_joins,
    auto_since
    = unpack_(FORMAT, data)
  return {
    layout = layout, gen = gen, epoch = epoch, deleted = deleted, fenced = fenced, t0 = t0, last_time = last_time,
    mono = mono, wall = wall, offset = offset, last_ticket = last_ticket, head = head, removed = removed,
    seq = seq, committed = committed, cfg_ver = cfg_ver, created_at = created_at, updated_at = updated_at,
    state = state, rate = rate, max_concurrent = max_concurrent, passed_ttl = passed_ttl,
    session_ttl = session_ttl, session_max = session_max, presence = presence, ip_cap = ip_cap,
    pre_ip_cap = pre_ip_cap, credit = credit, last_tick = last_tick, active = active, pending = pending,
    passes_out = passes_out, flush_up_to = flush_up_to, purge_up_to = purge_up_to, opens_at = opens_at,
    phase = phase, places = places, line_since = line_since, freed_at = freed_at, second = second,
    now_joins = now_joins, now_passes = now_passes, now_paid = now_paid, now_freed = now_freed,
    min_joins = min_joins, min_passes = min_passes, min_paid = min_paid, min_freed = min_freed, rescore = rescore,
    forgotten = forgotten, drawn_at = drawn_at, session_ip_cap = session_ip_cap, hour_end = hour_end, ended = ended,
    auto_joins = auto_joins, auto_since = auto_since,
  }
end

-- The string of header `h`.
function qm.header_pack(h)
  return pack(FORMAT,
    h.layout, h.gen, h.epoch, h.deleted, h.fenced, h.t0, h.last_time, h.mono, h.wall, h.offset, h.last_ticket,
    h.head, h.removed, h.seq, h.committed, h.cfg_ver, h.created_at, h.updated_at, h.state, h.rate,
    h.max_concurrent, h.passed_ttl, h.session_ttl, h.session_max, h.presence, h.ip_cap, h.pre_ip_cap, h.credit,
    h.last_tick, h.active, h.pending, h.passes_out, h.flush_up_to, h.purge_up_to, h.opens_at, h.phase, h.places,
    h.line_since, h.freed_at, h.second, h.now_joins, h.now_passes, h.now_paid, h.now_freed, h.min_joins,
    h.min_passes, h.min_paid, h.min_freed, h.rescore, h.forgotten, h.drawn_at, h.session_ip_cap, h.hour_end, h.ended,
    h.auto_joins, h.auto_since)
end
