-- Purpose: Sets the rate that autotune found, if everything it rests on still holds (ENG-224).
-- Keys: header
-- Args: gen · cfg_ver · epoch of the leader · rate that was seen · new rate · ms that a person's rate stays untouched ·
--   figures (JSON object) · actor (JSON string, further members may follow)
-- Returns: code, outcome (0 something it rests on has changed, 1 set, 3 a later leader has decided), seq, epoch
-- Errors: NOHEADER, NOROOM, STALE, FENCED
-- Facts: room_updated with why autotune
-- Cost: O(1)

local NOTHING, SET, OVERTAKEN = 0, 1, 3

local function may_tune(R, seen, hold_ms)
  local h = R.h
  if qm.state_of(h) ~= qm.S.ACTIVE or h.rate == 0 or h.rate ~= seen or qm.waiting(h) == 0 then return false end
  local set_at = qm.mark_number(R, "mark_rate_at") or 0
  return set_at == 0 or h.wall - set_at >= hold_ms
end

qm.fn("tune", { "allow-oom" }, function(keys, args)
  local R, code = qm.room_enter(keys[1], args[1], args[2])
  if not R then return { code } end
  local outcome, seq = NOTHING, 0
  if not qm.leader_enter(R, tonumber(args[3])) then
    outcome = OVERTAKEN
  elseif may_tune(R, tonumber(args[4]), tonumber(args[6])) then
    outcome = SET
    seq = qm.room_change(R, { { "rate_per_minute", args[5] } }, true, args[8], '"autotune"', args[7])
  end
  qm.room_close(R)
  return { qm.CODE.OK, outcome, seq, R.h.epoch }
end)
