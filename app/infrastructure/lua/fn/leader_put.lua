-- Purpose: Writes what a leader keeps for himself and his successors, unless a later one has written (FLT-026).
-- Keys: a hash; its field `epoch` is the highest epoch that wrote
-- Args: epoch · then pairs field, value ("" = remove the field)
-- Returns: code, written (0 = a later leader has written)
-- Errors: none
-- Facts: none
-- Cost: O(fields)

qm.fn("leader_put", { "allow-oom" }, function(keys, args)
  local known = tonumber(redis.call("HGET", keys[1], "epoch") or 0)
  if tonumber(args[1]) < known then return { qm.CODE.OK, 0 } end
  redis.call("HSET", keys[1], "epoch", args[1])
  for i = 2, #args, 2 do
    if args[i + 1] == "" then
      redis.call("HDEL", keys[1], args[i])
    else
      redis.call("HSET", keys[1], args[i], args[i + 1])
    end
  end
  return { qm.CODE.OK, 1 }
end)
