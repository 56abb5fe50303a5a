-- A purge (ENG-189): the head is past the line in one step, and no record is written. A record that says WAITING before
-- the head, and that no flush has promoted (flush.lua), is that of a purged ticket. Ranges of purged numbers stay in
-- list `pu`, so that their holders are told so even when their records have been dropped (forget.lua).

local RANGES = 16

local call, char, sub, pack, unpack_
qm.bind(function()
  call, char, sub, pack, unpack_ = redis.call, string.char, string.sub, struct.pack, struct.unpack
end)

local T, WHY, REASON = qm.T, qm.WHY, qm.REASON

-- Record of a purged ticket, from the one that says it waits.
function qm.purged_record(rec)
  return char(T.EJECTED, 0, WHY.PURGE) .. sub(rec, 4)
end

-- True when number n, which has no record any more, was in a line that a purge dropped.
local function was_purged(R, n)
  if n < 1 or n > R.h.purge_up_to then return false end
  local ranges = call("LRANGE", R.g .. "pu", 0, -1)
  for i = 1, #ranges do
    local first, last = unpack_("<I4I4", ranges[i])
    if n >= first and n <= last then return true end
  end
  return false
end

-- What is said of number n of this generation when it has no record: nobody can be proved to own it (ENG-274).
function qm.reason_missing(R, n)
  return was_purged(R, n) and REASON.EJECTED or REASON.EXPIRED
end

-- Nobody waits any more: the head is past the last ticket, and no address holds a place.
function qm.line_emptied(R)
  local h = R.h
  qm.head_to(R, h.last_ticket)
  h.removed = 0
  R.sums = nil
  qm.places_clear(R, "i")
end

-- Drops everybody: `waiting` and `places` people in line and in the pre-queue; returns the seq to wait for.
function qm.purge_line(R, actor, waiting, places)
  local h = R.h
  qm.places_purge(R)
  call("RPUSH", R.g .. "pu", pack("<I4I4", h.head + 1, h.last_ticket))
  call("LTRIM", R.g .. "pu", -RANGES, -1)
  qm.note_ends(R, h.head + 1, h.last_ticket)
  h.purge_up_to = h.last_ticket
  qm.line_emptied(R)
  return qm.fact(R, qm.FACT.PURGED, pack("<I4I4I4", h.purge_up_to, waiting, places) .. actor)
end
