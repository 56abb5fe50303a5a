-- A ticket before the head whose record still says WAITING: what flushes and purges have made of it (flush.lua, purge.lua).

local call, byte, sub, char
qm.bind(function() call, byte, sub, char = redis.call, string.byte, string.sub, string.char end)

local T, DOOR_BYTES = qm.T, qm.DOOR_BYTES

-- The flush that ticket n, not written yet, got its pass by; nil = none.
local function flush_of(R, n)
  if n > R.h.flush_up_to then return nil end
  local entries = call("LRANGE", R.g .. "fl", 0, -1)
  for i = 1, #entries do
    local f = qm.flush_entry(entries[i])
    if n > f.cursor and n <= f.up_to then return f end
  end
  return nil
end

-- What ticket n before the head is whose record `rec` still says WAITING. A pass is written at once.
function qm.ticket_settle(R, n, rec)
  local f = flush_of(R, n)
  if not f then return qm.purged_record(rec) end
  local flags, door, due = qm.flush_pass(R, f, n, byte(rec, 2), qm.seen_of(rec))
  local k, i = qm.place(n)
  local head = char(T.PASSED, flags)
  local waits = qm.waits_of(R)
  waits[#waits + 1] = f.passed_at - qm.joined_of(rec)
  qm.door_room(R, n)
  qm.ticket_put(R, n, 0, head)
  call("SETRANGE", R.g .. "d" .. k, i * DOOR_BYTES, door)
  qm.deadline_set(R, n, due)
  if n <= f.slot_to then
    qm.slot_put(R, rec)
  elseif f.bounded == 1 then
    qm.door_enter(R, n)
  end
  return head .. sub(rec, 3)
end

-- The records, ticket and door, that ticket_settle would make of `rec`; nil = no flush promoted n. Writes nothing.
function qm.flush_peek(R, n, rec)
  local f = flush_of(R, n)
  if not f then return nil end
  local flags, door = qm.flush_pass(R, f, n, byte(rec, 2), qm.seen_of(rec))
  return char(T.PASSED, flags) .. sub(rec, 3), door
end

-- True while a flush under a bound is being written: nobody knows yet who stands at the door, and the tick that has
-- written it gives the slots.
function qm.door_unwritten(h)
  return h.flush_up_to > 0 and h.session_ip_cap > 0
end
