-- Purpose: Switches a room's queue on or off by its arrivals, when the condition has held long enough (ENG-213 to ENG-216).
-- Keys: header
-- Args: gen · cfg_ver · epoch of the leader · sustainSec · releaseAfterSec (0 = never closes) ·
--   actor (JSON string, further members may follow)
-- Returns: code, outcome (0 nothing, 1 opened, 2 closed, 3 a later leader has decided), arrivals/min, seconds the
--   condition has held, seq, epoch
-- Errors: NOHEADER, NOROOM, STALE, FENCED
-- Facts: room_updated with why threshold
-- Cost: O(1)

local NOTHING, OPENED, CLOSED, OVERTAKEN = 0, 1, 2, 3

local function wish(R, held_ms, sustain, release)
  local h = R.h
  if h.auto_joins == 0 or h.auto_since == 0 or h.phase > 0 then return NOTHING end
  if h.state == qm.S.BYPASS and held_ms >= sustain * 1000 then return OPENED end
  local may_close = h.state == qm.S.ACTIVE and release > 0 and held_ms >= release * 1000 and qm.waiting(h) == 0
  if may_close and redis.call("HEXISTS", R.p .. "cfg", "mark_own") == 1 then return CLOSED end
  return NOTHING
end

qm.fn("auto_switch", { "allow-oom" }, function(keys, args)
  local R, code = qm.room_enter(keys[1], args[1], args[2])
  if not R then return { code } end
  local h, leader = R.h, tonumber(args[3])
  if not qm.leader_enter(R, leader) then return { qm.CODE.OK, OVERTAKEN, 0, 0, 0, h.epoch } end
  local held_ms = h.mono - h.auto_since
  local outcome, joins, seconds = wish(R, held_ms, tonumber(args[4]), tonumber(args[5])), qm.joins_last_minute(R), 0
  local seq = 0
  if outcome ~= NOTHING then
    seconds = math.floor(held_ms / 1000)
    local state = outcome == OPENED and qm.S.ACTIVE or qm.S.BYPASS
    local figures = string.format('{"joins_per_min":%.0f,"threshold":%.0f,"seconds":%.0f,"leader":%.0f}', joins,
      h.auto_joins, seconds, leader)
    local changed = { { "state", string.format("%.0f", state) } }
    seq = qm.room_change(R, changed, true, args[6], '"threshold"', figures)
  end
  qm.room_close(R)
  return { qm.CODE.OK, outcome, joins, seconds, seq, h.epoch }
end)
