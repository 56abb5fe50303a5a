-- Purpose: Writes configuration and header of a rebuilt room, which answers from then on.
-- Keys: header
-- Args: epoch of the rebuild · header string · then pairs field, JSON value (and `salt`)
-- Returns: code, written (0 = overtaken)
-- Errors: none
-- Facts: none
-- Cost: O(fields)

qm.fn("rebuild_end", {}, function(keys, args)
  local key = keys[1]
  local p = key:sub(1, -2)
  if redis.call("HGET", p .. "rb", "epoch") ~= args[1] then return { qm.CODE.OK, 0 } end
  local h = qm.header_read(args[2])
  h.last_time = qm.time_ms()
  if #args > 2 then redis.call("HSET", p .. "cfg", unpack(args, 3)) end
  redis.call("SET", key, qm.header_pack(h))
  redis.call("DEL", p .. "rb")
  qm.room_verify(key, true)
  return { qm.CODE.OK, 1 }
end)
