-- Purpose: What autotune needs to know of a room.
-- Keys: header
-- Args: none
-- Returns: code, gen, cfg_ver, effective state, rate, waiting, active + pending, max_concurrent (0 = no cap), passes out, last rate
--   that a person set, ms since (-1 = with the room)
-- Errors: NOHEADER, NOROOM, FENCED
-- Facts: none
-- Cost: O(1)

qm.fn("tuning", { "no-writes" }, function(keys)
  local R, code = qm.room_open(keys[1], 0, 0)
  if not R then return { code } end
  local h = R.h
  local set_at = qm.mark_number(R, "mark_rate_at") or 0
  return {
    qm.CODE.OK, h.gen, h.cfg_ver, qm.state_of(h), h.rate, qm.waiting(h), h.active + h.pending, h.max_concurrent, h.passes_out,
    qm.mark_number(R, "mark_rate") or h.rate, set_at > 0 and h.wall - set_at or -1,
  }
end)
