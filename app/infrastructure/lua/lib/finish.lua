-- A ticket is over: whatever it held is free, and its record says why.

local call, byte, band
qm.bind(function() call, byte, band = redis.call, string.byte, bit.band end)

local FLAG, T = qm.FLAG, qm.T

-- Notes that the slot of the ticket with record `rec` became free now.
function qm.slot_freed(R, rec)
  local h = R.h
  h.freed_at = h.mono
  h.now_freed = h.now_freed + 1
  qm.slot_change(R, rec, 17, -1)
  qm.bound_release(R, rec)
end

-- Takes back what ticket n holds as WAITING, PASSED or ACTIVE: place and address count, slot, door, deadline,
-- and what is kept of him beside the records.
function qm.give_up(R, n, rec)
  local h, state, flags = R.h, byte(rec, 1, 2)
  qm.note_end(R, n)
  if band(flags, FLAG.HAS_FROM) > 0 then qm.from_drop(R, n) end
  if state == T.WAITING then
    qm.line_remove(R, n)
    qm.place_change(R, "i", rec, 15, -1)
    return
  end
  call("ZREM", R.g .. "e", n)
  if state == T.ACTIVE then
    h.active = h.active - 1
    qm.session_forget(R, n)
    qm.slot_freed(R, rec)
  elseif band(flags, FLAG.SLOT) > 0 then
    h.pending = h.pending - 1
    qm.slot_freed(R, rec)
  else
    h.passes_out = h.passes_out - 1
    if band(flags, FLAG.AT_DOOR) > 0 then qm.door_leave(R, n, rec) end
  end
end

-- Ends ticket n, which is WAITING, PASSED or ACTIVE. The fact is the caller's.
function qm.finish(R, n, rec, state, why)
  qm.give_up(R, n, rec)
  if state == T.EXPIRED then qm.ring_note(R, n) end
  local flags = byte(rec, 2)
  qm.ticket_set(R, n, state, band(flags, 255 - FLAG.SLOT - FLAG.AT_DOOR - FLAG.TOLD - FLAG.HAS_FROM), why)
end

-- True for a ticket that is in line, has a pass or a session.
function qm.is_live(state)
  return state == T.WAITING or state == T.PASSED or state == T.ACTIVE
end
