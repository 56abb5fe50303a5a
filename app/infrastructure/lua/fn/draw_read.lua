-- Purpose: What a draw is computed from: its state, or a chunk of place records.
-- Keys: header
-- Args: chunk of places, or -1 for the state
-- Returns: code, phase, gen, seed (32 bytes), the place after which the drawn ones begin, highest place, number of
--   drawn places, those that have their number already · or code, the chunk (records of 96 bytes, lib/prequeue.lua)
-- Errors: NOHEADER, NOROOM, FENCED
-- Facts: none
-- Cost: O(1); a chunk is 96 KiB

qm.fn("draw_read", { "no-writes" }, function(keys, args)
  local R, code = qm.room_open(keys[1], 0, 0)
  if not R then return { code } end
  local chunk = tonumber(args[1])
  if chunk >= 0 then return { qm.CODE.OK, redis.call("GET", R.g .. "h" .. chunk) or "" } end
  local pre = qm.pre(R)
  return {
    qm.CODE.OK, R.h.phase, R.h.gen, pre.seed, pre.base, R.h.places, pre.count, pre.done,
  }
end)
