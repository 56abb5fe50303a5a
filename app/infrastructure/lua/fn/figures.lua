-- Purpose: Live figures of one room (RoomFigures).
-- Keys: header
-- Args: none
-- Returns: code, gen, cfg_ver, state, rate, waiting, active, pending, passes out, joins/min, passed/min, oldest wait
--   (s; -1 = nobody waits), last ticket, release rate/min, floor mark, seq, committed, W (ms)
-- Errors: NOHEADER, NOROOM, FENCED
-- Facts: none
-- Cost: O(1), with removed tickets one BITPOS

qm.fn("figures", { "no-writes" }, function(keys)
  local R, code = qm.room_open(keys[1], 0, 0)
  if not R then return { code } end
  local h, oldest = R.h, -1
  local first = qm.first_waiting(R)
  local rec = first and qm.ticket_get(R, first)
  if rec then oldest = math.max(0, math.floor((h.wall - qm.joined_of(rec)) / 1000)) end
  local rate, is_floor = qm.release_rate(h)
  return {
    qm.CODE.OK, h.gen, h.cfg_ver, h.state, h.rate, qm.waiting(h), h.active, h.pending, h.passes_out,
    h.min_joins + h.now_joins, h.min_passes + h.now_passes, oldest, h.last_ticket, rate, is_floor, h.seq, h.committed,
    h.wall,
  }
end)
