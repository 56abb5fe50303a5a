-- Ends of passes and sessions: sorted set `e`, ticket number -> ds at which a tick has to look again. A score may be
-- too early (a session slid, a holder was seen): the tick reads the record and scores it anew. It is never too late.

local LIMIT = 500

local call, byte, band, char, min, tonumber_, pack
qm.bind(function()
  call, byte, band, char, min, tonumber_, pack =
    redis.call, string.byte, bit.band, string.char, math.min, tonumber, struct.pack
end)

local FLAG, T, WHY, RELEASED = qm.FLAG, qm.T, qm.WHY, qm.RELEASED

-- Length of a claim window in ds (ENG-127).
function qm.claim_ds(h)
  return min(1200, h.passed_ttl * 10)
end

-- The wall time of `ds` as eight bytes.
function qm.wall_bytes(R, ds)
  return pack("<I8", qm.wall_of(R.h, ds))
end

-- When a session ends: idle, or at its longest life (ENG-148).
function qm.session_end(h, door)
  return min(door.used + h.session_ttl * 10, door.first + h.session_max * 10)
end

-- When a tick has to look at an unused pass.
function qm.pass_due(R, flags, seen, door)
  if band(flags, FLAG.SLOT) == 0 then return door.pass_end end
  if band(flags, FLAG.TOLD) == 0 then return min(door.claim_end, seen + R.absent_ds + 1) end
  return door.claim_end
end

-- Sets the score of n.
function qm.deadline_set(R, n, ds)
  call("ZADD", R.g .. "e", ds, n)
end

local function release(R, work, n, rec, why)
  local flags = byte(rec, 2)
  local wasted = why == RELEASED.CLAIM_OVER and band(flags, FLAG.AT_DOOR) > 0 and band(flags, FLAG.WASTED) == 0
  flags = flags - FLAG.SLOT
  if band(flags, FLAG.AT_DOOR) > 0 then flags = flags - FLAG.AT_DOOR end
  if wasted then flags = flags + FLAG.WASTED end
  qm.ticket_put(R, n, 1, char(flags))
  local h = R.h
  h.pending, h.passes_out = h.pending - 1, h.passes_out + 1
  qm.slot_freed(R, rec)
  local list = work.released[why]
  list[#list + 1] = n
end

local function lapse(R, work, n, rec, why)
  qm.finish(R, n, rec, T.EXPIRED, why)
  local list = work.lapsed[why]
  list[#list + 1] = n
end

local function visit_pass(R, work, n, rec)
  local flags, door, seen = byte(rec, 2), qm.door_get(R, n), qm.seen_of(rec)
  local absent = qm.is_absent(R, rec)
  if band(flags, FLAG.SLOT) > 0 then
    local over = R.ds >= door.claim_end
    if not over and not (absent and band(flags, FLAG.TOLD) == 0) then
      return qm.deadline_set(R, n, qm.pass_due(R, flags, seen, door))
    end
    if over then qm.pass_judged(R, rec, true) end
    if R.ds >= door.pass_end then return lapse(R, work, n, rec, WHY.PASS_OVER) end
    release(R, work, n, rec, over and RELEASED.CLAIM_OVER or RELEASED.ABSENT)
    return qm.deadline_set(R, n, door.pass_end)
  end
  if R.ds < door.pass_end then return qm.deadline_set(R, n, door.pass_end) end
  if band(flags, FLAG.AT_DOOR) > 0 and band(flags, FLAG.WASTED) == 0 and not absent then
    return qm.deadline_set(R, n, seen + R.absent_ds + 1)
  end
  return lapse(R, work, n, rec, WHY.PASS_OVER)
end

local function visit_session(R, work, n, rec)
  local h, door = R.h, qm.door_get(R, n)
  local ends = qm.session_end(h, door)
  if R.ds < ends then return qm.deadline_set(R, n, ends) end
  local longest = door.first + h.session_max * 10
  lapse(R, work, n, rec, R.ds >= longest and WHY.SESSION_MAX or WHY.SESSION_IDLE)
end

-- Looks at everything that is due, at most 500, out of the call's work (R.work, see fn/tick.lua). Returns how many lapsed,
-- and false when more may be due.
function qm.deadlines_run(R)
  local due = call("ZRANGEBYSCORE", R.g .. "e", "-inf", R.ds, "LIMIT", 0, LIMIT)
  local work = { lapsed = { {}, {}, {} }, released = { {}, {} } }
  for i = 1, #due do
    local n = tonumber_(due[i])
    local rec = qm.ticket_get(R, n)
    local state = rec and byte(rec, 1)
    if state == T.PASSED then
      visit_pass(R, work, n, rec)
    elseif state == T.ACTIVE then
      visit_session(R, work, n, rec)
    else
      call("ZREM", R.g .. "e", n)
    end
  end
  R.work = R.work - 2 * #due
  for why = 1, 2 do qm.fact_tickets(R, qm.FACT.SLOT_RELEASED, char(why), work.released[why]) end
  for why = 1, 3 do qm.fact_tickets(R, qm.FACT.LAPSED, char(why), work.lapsed[why]) end
  return #work.lapsed[1] + #work.lapsed[2] + #work.lapsed[3], #due < LIMIT
end

-- When a tick has to look at the pass or session of n.
local function due_of(R, n, rec)
  local state, flags = byte(rec, 1, 2)
  local door = qm.door_get(R, n)
  if state == T.ACTIVE then return qm.session_end(R.h, door) end
  local stands = band(flags, FLAG.SLOT) == 0 and band(flags, FLAG.AT_DOOR) > 0 and R.ds >= door.pass_end
  return stands and qm.seen_of(rec) + R.absent_ds + 1 or qm.pass_due(R, flags, qm.seen_of(rec), door)
end

-- After a shorter session or presence: scores are too late, so a walk over all of them sets them anew, 500 or so a call.
function qm.deadlines_rescore(R)
  local h = R.h
  if h.rescore == 0 then return end
  local page = call("ZSCAN", R.g .. "e", h.rescore - 1, "COUNT", LIMIT)
  for i = 1, #page[2], 2 do
    local n = tonumber_(page[2][i])
    local rec = qm.ticket_get(R, n)
    if rec then qm.deadline_set(R, n, due_of(R, n, rec)) end
  end
  local cursor = tonumber_(page[1])
  h.rescore = cursor == 0 and 0 or cursor + 1
end
