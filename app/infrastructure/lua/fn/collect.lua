-- Purpose: Unlinks keys of ended generations, a bounded number a call.
-- Keys: header
-- Args: none
-- Returns: code, again (1 = call once more)
-- Errors: none
-- Facts: none
-- Cost: O(keys), at most 760 keys

local CHUNKS = 250

qm.fn("collect", { "allow-oom" }, function(keys)
  local p = keys[1]:sub(1, -2)
  local ended = redis.call("HGETALL", p .. "gc")
  if #ended == 0 then return { qm.CODE.OK, 0 } end
  local g, last = p .. ended[1] .. ":", tonumber(ended[2])
  local names, left = {}, last
  while left > 0 and #names < 3 * CHUNKS do
    local k = qm.place(left)
    names[#names + 1] = g .. "t" .. k
    names[#names + 1] = g .. "d" .. k
    names[#names + 1] = g .. "h" .. k
    left = k * qm.CHUNK
  end
  if left == 0 then
    for _, name in ipairs(qm.OF_GENERATION) do names[#names + 1] = g .. name end
    for _, name in ipairs(qm.OF_STATISTICS) do names[#names + 1] = g .. name end
    redis.call("HDEL", p .. "gc", ended[1])
  else
    redis.call("HSET", p .. "gc", ended[1], left)
  end
  redis.call("UNLINK", unpack(names))
  return { qm.CODE.OK, (left > 0 or #ended > 2) and 1 or 0 }
end)
