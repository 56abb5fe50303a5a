-- Facts of this call. Bodies are those of app/domain/facts_of_*.py; they reach the outbox when the room is closed.

local pack, char, concat
qm.bind(function() pack, char, concat = struct.pack, string.char, table.concat end)

qm.FACT = {
  ROOM_CREATED = 1, ROOM_UPDATED = 2, ROOM_DELETED = 3, SCHEDULED = 4, PREJOINED = 5, JOINED = 6, JOIN_WITHDRAWN = 7,
  DRAW_PART = 8, DRAWN = 9, PROMOTED = 10,
  SLOT_GIVEN = 11, SLOT_RELEASED = 12, ADMITTED = 13, ADMISSION_WITHDRAWN = 14, RECLAIMED = 15,
  OWNER_REBOUND = 16, LAPSED = 17, LEFT = 18, EJECTED = 19, PURGED = 20, DRAW_BEGUN = 21, CLOCK_MOVED = 22,
}
local LOG_VERSION = qm.EVENT_LOG_VERSION -- of app/domain/facts.py, put into the library's first lines

-- First ten bytes of a fact of type `kind` recorded now.
function qm.fact_head(R, kind)
  return pack("<BBI8", kind, LOG_VERSION, R.h.wall)
end

-- Records where M stands in wall time when that is more than `slack` ms from what the facts so far say: ends in facts are
-- wall times, and only with this do they come back as the moments of M that they are (ENG-303).
function qm.clock_told(R, slack)
  local h = R.h
  local t0 = h.wall - h.mono
  local off = t0 - h.t0
  if off <= slack and off >= -slack then return end
  h.t0, h.seq = t0, h.seq + 1
  R.facts[#R.facts + 1] = qm.fact_head(R, qm.FACT.CLOCK_MOVED) .. pack("<I8", t0)
end

-- Appends the whole element `data`; returns its seq. The first fact of a call stands behind what it rests on.
function qm.fact_add(R, data)
  local h = R.h
  if #R.facts == 0 and h.wall - h.mono ~= h.t0 then qm.clock_told(R, 0) end
  h.seq = h.seq + 1
  R.facts[#R.facts + 1] = data
  return h.seq
end

-- Appends a fact of type `kind` with `body`; returns its seq.
function qm.fact(R, kind, body)
  return qm.fact_add(R, qm.fact_head(R, kind) .. body)
end

-- Appends a fact whose body is `prefix` and the numbers in `tickets`, unless there are none.
function qm.fact_tickets(R, kind, prefix, tickets)
  if #tickets == 0 then return end
  local parts = { prefix }
  for i = 1, #tickets do parts[i + 1] = pack("<I4", tickets[i]) end
  return qm.fact(R, kind, concat(parts))
end

-- One byte.
function qm.byte_of(number)
  return char(number)
end

-- The seq that an answer about something already done has to wait for: 0 when everything is committed.
function qm.outstanding(h)
  if h.seq > h.committed then return h.seq end
  return 0
end
