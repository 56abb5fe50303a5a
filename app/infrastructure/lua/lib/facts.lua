-- Facts of this call. Bodies are those of app/domain/facts_of_*.py; they reach the outbox when the room is closed.

local pack, char, concat
qm.bind(function() pack, char, concat = struct.pack, string.char, table.concat end)

qm.FACT = {
  ROOM_CREATED = 1, ROOM_UPDATED = 2, ROOM_DELETED = 3, SCHEDULED = 4, PREJOINED = 5, JOINED = 6, JOIN_WITHDRAWN = 7,
  DRAW_PART = 8, DRAWN = 9, PROMOTED = 10,
  SLOT_GIVEN = 11, SLOT_RELEASED = 12, ADMITTED = 13, ADMISSION_WITHDRAWN = 14, RECLAIMED = 15,
  OWNER_REBOUND = 16, LAPSED = 17, LEFT = 18, EJECTED = 19, PURGED = 20, DRAW_BEGUN = 21,
}
local LOG_VERSION = qm.EVENT_LOG_VERSION -- of app/domain/facts.py, put into the library's first lines

-- First ten bytes of a fact of type `kind` recorded now.
function qm.fact_head(R, kind)
  return pack("<BBI8", kind, LOG_VERSION, R.h.wall)
end

-- Appends the whole element `data`; returns its seq.
function qm.fact_add(R, data)
  local h = R.h
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
