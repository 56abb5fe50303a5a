-- A flush (ENG-187): everybody who waits has a pass from one step on. The step decides all of it and writes little: the
-- head is past the line, the counters are right, and one entry of list `fl` says who got what. Records and deadlines
-- follow in slices, by ticks, or at once for a ticket that is asked about. Until then a record that says WAITING before
-- the head is read by that entry, or else by the purge that dropped it (purge.lua).
--
-- Entry: cursor (records up to here are written), up to, slots up to (u32), passedAt (u48), passEnd, claimEnd (u32 ds),
-- bounded u8: 1 = slots per address were bounded at the flush.

local LIMIT, RUN = 1000, 64
local FORMAT = "<I4I4I4I6I4I4B"

local call, byte, sub, char, pack, unpack_, concat, min, unpack_table
qm.bind(function()
  call, byte, sub, char, pack, unpack_ =
    redis.call, string.byte, string.sub, string.char, struct.pack, struct.unpack
  concat, min, unpack_table = table.concat, math.min, unpack
end)

local T, FLAG, CHUNK = qm.T, qm.FLAG, qm.CHUNK
local TICKET_BYTES, DOOR_BYTES = qm.TICKET_BYTES, qm.DOOR_BYTES
local BOTH = FLAG.SLOT + FLAG.PAID

local function entry_bytes(f)
  return pack(FORMAT, f.cursor, f.up_to, f.slot_to, f.passed_at, f.pass_end, f.claim_end, f.bounded)
end

-- Entry as a table.
function qm.flush_entry(data)
  local cursor, up_to, slot_to, passed_at, pass_end, claim_end, bounded = unpack_(FORMAT, data)
  return {
    cursor = cursor, up_to = up_to, slot_to = slot_to, passed_at = passed_at, pass_end = pass_end,
    claim_end = claim_end, slot_door = qm.pass_bytes(passed_at, pass_end, claim_end),
    plain_door = qm.pass_bytes(passed_at, pass_end, 0), bounded = bounded,
  }
end

-- Flags and door record of ticket n by entry f, and when a tick has to look at it. Where slots per address are bounded
-- nobody gets one by the flush itself: all stand at the door, which gives slots oldest first as well (ENG-296).
function qm.flush_pass(R, f, n, flags, seen)
  if n > f.slot_to then
    return flags + FLAG.PAID + (f.bounded == 1 and FLAG.AT_DOOR or 0), f.plain_door, f.pass_end
  end
  return flags + BOTH, f.slot_door, min(f.claim_end, seen + R.absent_ds + 1)
end

-- Writes the records of at most RUN neighbours after the cursor; returns how many numbers it went.
local function write_run(R, f, scores)
  local h, first = R.h, f.cursor + 1
  local k, i = qm.place(first)
  local count = min(RUN, CHUNK - i, f.up_to - f.cursor)
  qm.door_room(R, first)
  local key, door_key = R.g .. "t" .. k, R.g .. "d" .. k
  local block = call("GETRANGE", key, i * TICKET_BYTES, (i + count) * TICKET_BYTES - 1)
  local old_doors = call("GETRANGE", door_key, i * DOOR_BYTES, (i + count) * DOOR_BYTES - 1)
  local tickets, doors, waits = {}, {}, qm.waits_of(R)
  for j = 0, count - 1 do
    local at, at_door, n = j * TICKET_BYTES + 1, j * DOOR_BYTES + 1, first + j
    if byte(block, at) == T.WAITING then
      local seen, joined = unpack_("<I4I6", block, at + 4)
      local flags, door, due = qm.flush_pass(R, f, n, byte(block, at + 1), seen)
      waits[#waits + 1] = f.passed_at - joined
      tickets[j + 1] = char(T.PASSED, flags) .. sub(block, at + 2, at + TICKET_BYTES - 1)
      doors[j + 1] = door
      if n <= f.slot_to then
        qm.slot_change(R, block, at + 16, 1)
      elseif f.bounded == 1 then
        qm.door_enter(R, n)
      end
      scores[#scores + 1] = due
      scores[#scores + 1] = n
    else -- left the line before, or was asked about since
      tickets[j + 1] = sub(block, at, at + TICKET_BYTES - 1)
      doors[j + 1] = sub(old_doors, at_door, at_door + DOOR_BYTES - 1)
    end
  end
  call("SETRANGE", key, i * TICKET_BYTES, concat(tickets))
  call("SETRANGE", door_key, i * DOOR_BYTES, concat(doors))
  f.cursor = f.cursor + count
  return count
end

-- Writes what flushes have left to be written, at most LIMIT numbers. Returns false when more is left.
function qm.flush_run(R)
  local h, key, left = R.h, R.g .. "fl", LIMIT
  while h.flush_up_to > 0 do
    local data = call("LINDEX", key, 0)
    if not data then
      h.flush_up_to = 0
      break
    end
    local f, scores = qm.flush_entry(data), {}
    while f.cursor < f.up_to and left > 0 do left = left - write_run(R, f, scores) end
    if #scores > 0 then call("ZADD", R.g .. "e", unpack_table(scores)) end
    if f.cursor < f.up_to then
      call("LSET", key, 0, entry_bytes(f))
      return false
    end
    call("LPOP", key)
  end
  return true
end

local function flushed_fact(R, f, first, waiting, actor)
  local runs = {}
  if f.slot_to >= first then runs[1] = pack("<I4I4B", first, f.slot_to - first + 1, BOTH) end
  if f.up_to > f.slot_to then
    runs[#runs + 1] = pack("<I4I4B", f.slot_to + 1, f.up_to - f.slot_to, FLAG.PAID)
  end
  local claim = f.slot_to >= first and qm.wall_of(R.h, f.claim_end) or 0
  local head = pack("<BI8I8I4B", qm.BY.FLUSH, qm.wall_of(R.h, f.pass_end), claim, waiting, #runs)
  return qm.fact(R, qm.FACT.PROMOTED, head .. concat(runs) .. actor)
end

-- Gives everybody who waits a pass; returns the seq to wait for. Those at the door come first, they are older.
function qm.flush_line(R, actor)
  local h, waiting = R.h, qm.waiting(R.h)
  qm.flush_run(R) -- whom an earlier one has sent to the door
  qm.door_serve(R)
  local slots = h.session_ip_cap > 0 and 0 or waiting
  if h.max_concurrent > 0 then slots = min(slots, math.max(0, h.max_concurrent - h.active - h.pending)) end
  local first = h.head + 1
  local f = {
    cursor = h.head, up_to = h.last_ticket, slot_to = slots == 0 and h.head or qm.nth_waiting(R, slots),
    passed_at = h.wall, pass_end = R.ds + h.passed_ttl * 10, claim_end = R.ds + qm.claim_ds(h),
    bounded = h.session_ip_cap > 0 and 1 or 0,
  }
  call("RPUSH", R.g .. "fl", entry_bytes(f))
  h.flush_up_to = f.up_to
  h.pending, h.passes_out = h.pending + slots, h.passes_out + waiting - slots
  h.now_passes = h.now_passes + waiting
  qm.line_emptied(R)
  return flushed_fact(R, f, first, waiting, actor)
end
