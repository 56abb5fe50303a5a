-- Purpose: Moves one room on: records of a flush, credit, opening, ended passes and sessions, the door, then the line.
--   Any number of instances may call it; the elapsed time is shared.
-- Keys: header
-- Args: wall ms of the acting instance · 32 random bytes made for this call (seed of a draw that it may begin) ·
--   how long tickets that are over are remembered (ms)
-- Returns: code, promoted (paid), passed over, lapsed, again (1 = a work limit ended it), seq, epoch, phase, opensAt
-- Errors: NOHEADER, NOROOM, FENCED
-- Facts: clock_moved, draw_begun, drawn (of nobody), slot_released, lapsed, slot_given, promoted
-- Cost: work of about 1000 passes, shared by deadlines, the door and the line; every 10 s four old chunks dropped

-- Facts that may wait for the journal, and how long (ms of the room's clock) it may take none of them; beyond either
-- nobody is promoted, so that memory stays bounded (FLT-078).
local BACKLOG_LIMIT, BACKLOG_MS = 1000000, 600000
-- So few are on their way at any time, and are not looked at.
local BACKLOG_USUAL = 60

-- How far (ms) M and W may part in a room in which nothing else happens before it is a fact: while the host's clock is
-- set back and W stands still, they part by as much as passes.
local CLOCK_SLACK = 1000

-- True when the journal is too far behind for new facts that nobody waits for. Key `late`: position of the journal, and
-- the moment since when it stands there.
local function is_behind(R)
  local h = R.h
  local waiting = h.seq - h.committed
  if waiting < BACKLOG_USUAL then return false end
  if waiting >= BACKLOG_LIMIT then return true end
  local data = redis.call("GET", R.p .. "late")
  if data then
    local committed, since = struct.unpack("<dd", data)
    if committed == h.committed and since <= h.mono then return h.mono - since > BACKLOG_MS end
  end
  redis.call("SET", R.p .. "late", struct.pack("<dd", h.committed, h.mono), "PX", 86400000)
  return false
end

qm.fn("tick", { "allow-oom" }, function(keys, args)
  local R, code = qm.room_enter(keys[1], 0, 0)
  if not R then return { code } end
  local h = R.h
  local since = math.floor(h.last_tick / 1000)
  qm.accrue(h)
  -- Where nobody has anything that ends, the next fact tells early enough.
  if h.active + h.pending + h.passes_out > 0 then qm.clock_told(R, CLOCK_SLACK) end
  -- While a flush is being written there is time for nothing else; nobody waits but who has come since.
  if not qm.flush_run(R) then
    qm.room_close(R)
    return { qm.CODE.OK, 0, 0, 0, 1, h.seq, h.epoch, h.phase, h.opens_at }
  end
  if h.phase > 0 then qm.doors(R, tonumber(args[1]), args[2]) end
  qm.deadlines_rescore(R)
  local lapsed, ends_done = qm.deadlines_run(R)
  local door_done, paid, absent, line_done = true, 0, 0, true
  if not is_behind(R) then
    if R.work > 0 then door_done = qm.door_serve(R) else door_done = false end
    if door_done then paid, absent, line_done = qm.promote_line(R) end
  end
  -- Unused credit is cut only when nothing but pace, slots or people ran out (ENG-115).
  if door_done and line_done and h.credit > 1 then h.credit = 1 end
  qm.forget(R, since, tonumber(args[3]))
  qm.churn_end(R, since)
  qm.room_close(R)
  local again = not (ends_done and door_done and line_done) or h.rescore > 0
  return { qm.CODE.OK, paid, absent, lapsed, again and 1 or 0, h.seq, h.epoch, h.phase, h.opens_at }
end)
