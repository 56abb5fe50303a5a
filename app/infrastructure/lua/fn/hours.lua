-- Purpose: Records of a room's hours, for keeping them elsewhere (ENG-237).
-- Keys: header
-- Args: hours whose records are kept elsewhere and not needed here any more
-- Returns: code, gen, the record of the running hour as it stands (app/domain/hour_record.py; empty = none), records of
--   the hours before it…
-- Errors: NOHEADER, NOROOM, FENCED
-- Facts: none
-- Cost: O(hours), at most 50

qm.fn("hours", { "allow-oom" }, function(keys, args)
  local R, code = qm.room_open(keys[1], 0, 0)
  if not R then return { code } end
  local key = R.g .. "sh"
  if #args > 0 then redis.call("HDEL", key, unpack(args)) end
  local answer = { qm.CODE.OK, R.h.gen, qm.hours_last(R)[1] }
  for _, record in ipairs(redis.call("HVALS", key)) do answer[#answer + 1] = record end
  return answer
end)
