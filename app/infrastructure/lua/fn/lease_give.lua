-- Purpose: Gives a lease back, if it is still this holder's.
-- Keys: the lease
-- Args: holder
-- Returns: code, given (0 = it was not his any more)
-- Errors: none
-- Facts: none
-- Cost: O(1)

qm.fn("lease_give", { "allow-oom" }, function(keys, args)
  if redis.call("GET", keys[1]) ~= args[1] then return { qm.CODE.OK, 0 } end
  redis.call("DEL", keys[1])
  return { qm.CODE.OK, 1 }
end)
