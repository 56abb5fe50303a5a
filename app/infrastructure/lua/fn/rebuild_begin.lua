-- Purpose: Claims the rebuild of a room and clears what it had; call again with the next chunk until that is 0.
-- Keys: header
-- Args: gen · epoch of the rebuild · first chunk to unlink (0 = begin)
-- Returns: code, claimed (0 = a higher rebuild has begun, or the room lives with this epoch or a later one, or is a
--   newer release's), next chunk
-- Errors: none
-- Facts: none
-- Cost: at most 765 keys a call

local CHUNKS = 250

local function may_claim(key, p, gen, epoch)
  local begun = redis.call("HGET", p .. "rb", "epoch")
  if begun and tonumber(begun) > epoch then return false end
  local data = redis.call("GET", key)
  local h = data and qm.header_read(data)
  if not h then return true end
  return h.layout <= qm.LAYOUT and not (h.fenced == 0 and h.gen == gen and h.epoch >= epoch)
end

qm.fn("rebuild_begin", { "allow-oom" }, function(keys, args)
  local key = keys[1]
  local p, gen, epoch, first = key:sub(1, -2), tonumber(args[1]), tonumber(args[2]), tonumber(args[3])
  if not may_claim(key, p, gen, epoch) then return { qm.CODE.OK, 0, 0 } end
  local g = p .. gen .. ":"
  redis.call("HSET", p .. "rb", "epoch", epoch, "gen", gen)
  redis.call("UNLINK", key, p .. "l", p .. "k", p .. "cfg")
  qm.room_verify(key, false)
  local names = {}
  for _, name in ipairs(qm.OF_GENERATION) do names[#names + 1] = g .. name end
  redis.call("UNLINK", unpack(names))
  names = {}
  for k = first, first + CHUNKS - 1 do
    names[#names + 1] = g .. "t" .. k
    names[#names + 1] = g .. "d" .. k
    names[#names + 1] = g .. "h" .. k
  end
  -- Chunks are made in order, so a slice without any is behind the last one.
  local any = redis.call("UNLINK", unpack(names)) > 0
  return { qm.CODE.OK, 1, any and first + CHUNKS or 0 }
end)
