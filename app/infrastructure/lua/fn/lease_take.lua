-- Purpose: Takes or renews a lease: for a holder who has it, or when nobody does.
-- Keys: the lease
-- Args: holder · ms
-- Returns: code, held (0 = another holder has it)
-- Errors: none
-- Facts: none
-- Cost: O(1)

qm.fn("lease_take", { "allow-oom" }, function(keys, args)
  local holder = redis.call("GET", keys[1])
  if holder and holder ~= args[1] then return { qm.CODE.OK, 0 } end
  redis.call("SET", keys[1], args[1], "PX", args[2])
  return { qm.CODE.OK, 1 }
end)
