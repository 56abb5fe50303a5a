-- Purpose: Raises the number of the leader's term above itself and above `floor` (FLT-026, FLT-149).
-- Keys: the epoch
-- Args: floor (highest number known elsewhere)
-- Returns: code, epoch
-- Errors: none
-- Facts: none
-- Cost: O(1)

qm.fn("leader_epoch", { "allow-oom" }, function(keys, args)
  local epoch = math.max(tonumber(redis.call("GET", keys[1]) or 0), tonumber(args[1])) + 1
  redis.call("SET", keys[1], string.format("%.0f", epoch))
  return { qm.CODE.OK, epoch }
end)
