-- Purpose: Live figures of one room (RoomFigures).
-- Keys: header
-- Args: detail (1 = with what changes slowly)
-- Returns: code, gen, cfg_ver, state, rate, waiting, active, pending, passes out, joins/min, passed/min, oldest wait
--   (s; -1 = nobody waits), last ticket, release rate/min, floor mark, seq, committed, W (ms), most slots of one address,
--   checks without URL, blocked return URLs, checks of sessions that too many share, last switch by threshold
--   ("opened", "closed" or nil) and its wall ms, last change of state or rate (mark_last, lib/change.lua; nil = none), phase,
--   opensAt, drawnAt (wall ms), places in the pre-queue, why joins were refused within a minute ("line", "memory" or
--   nil); with detail also: the hash of counts (lib/tallies.lua) as a flat list, the records of the running hour and of the one before (app/domain/hour_record.py; empty = none)
-- Errors: NOHEADER, NOROOM, FENCED
-- Facts: none
-- Cost: O(1), with removed tickets one BITPOS, without ticks one GETRANGE for each second that they stayed away

qm.fn("figures", { "no-writes" }, function(keys, args)
  local R, code = qm.room_open(keys[1], 0, 0)
  if not R then return { code } end
  local h, oldest = R.h, -1
  local first = qm.first_waiting(R)
  local rec = first and qm.ticket_get(R, first)
  if rec then oldest = math.max(0, math.floor((h.wall - qm.joined_of(rec)) / 1000)) end
  local rate, is_floor = qm.release_rate(h)
  local counts = redis.call("HMGET", R.g .. "n", "checksWithoutUrl", "blockedReturnUrls", "sharedSessions")
  local switch = redis.call("HMGET", R.p .. "cfg", "mark_switch", "mark_switch_at", "mark_last")
  local joins, passes = qm.minute_told(R)
  local answer = {
    qm.CODE.OK, h.gen, h.cfg_ver, h.state, h.rate, qm.waiting_told(R), h.active, h.pending, h.passes_out,
    joins, passes, oldest, h.last_ticket, rate, is_floor, h.seq, h.committed,
    h.wall, qm.slots_top(R), tonumber(counts[1]) or 0, tonumber(counts[2]) or 0, tonumber(counts[3]) or 0,
    switch[1], switch[2], switch[3],
    h.phase, h.opens_at, h.drawn_at, qm.places_held(R), redis.call("GET", R.p .. "full"),
  }
  if args[1] == "1" then
    answer[#answer + 1] = redis.call("HGETALL", R.g .. "n")
    for _, record in ipairs(qm.hours_last(R)) do answer[#answer + 1] = record end
  end
  return answer
end)
