-- Purpose: Configuration of a room and the numbers that callers keep with it.
-- Keys: header
-- Args: none
-- Returns: code, gen, cfg_ver, createdAt, updatedAt (wall ms), then field, JSON value… (also `salt`, 16 bytes)
-- Errors: NOHEADER, NOROOM, FENCED
-- Facts: none
-- Cost: O(fields)

qm.fn("room_read", { "no-writes" }, function(keys)
  local R, code = qm.room_open(keys[1], 0, 0)
  if not R then return { code } end
  local h = R.h
  local answer = { qm.CODE.OK, h.gen, h.cfg_ver, h.created_at, h.updated_at }
  for _, item in ipairs(redis.call("HGETALL", R.p .. "cfg")) do answer[#answer + 1] = item end
  return answer
end)
