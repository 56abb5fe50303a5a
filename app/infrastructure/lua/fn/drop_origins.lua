-- Purpose: Forgets the refused origins of a room that was deleted.
-- Keys: the hash
-- Args: room
-- Returns: code
-- Errors: none
-- Facts: none
-- Cost: O(fields)

qm.fn("drop_origins", { "allow-oom" }, function(keys, args)
  local begin = args[1] .. " "
  for _, field in ipairs(redis.call("HKEYS", keys[1])) do
    if field:sub(1, #begin) == begin then redis.call("HDEL", keys[1], field) end
  end
  return { qm.CODE.OK }
end)
