-- Purpose: Adds checks that were refused for the origin of their page, by room and origin, in one hash of all rooms with
--   a bounded number of fields (ENG-211).
-- Keys: the hash
-- Args: most fields · then triples room, origin, increase
-- Returns: code
-- Errors: none
-- Facts: none
-- Cost: O(triples)

qm.fn("tally_origins", {}, function(keys, args)
  local key, limit = keys[1], tonumber(args[1])
  for i = 2, #args, 3 do
    local field = args[i] .. " " .. args[i + 1]
    if redis.call("HEXISTS", key, field) == 0 and redis.call("HLEN", key) >= limit then field = args[i] .. " other" end
    redis.call("HINCRBY", key, field, args[i + 2])
  end
  return { qm.CODE.OK }
end)
