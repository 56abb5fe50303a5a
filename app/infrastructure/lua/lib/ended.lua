-- When a ticket of each chunk last ended: string `c`, u32 (ds) a chunk, 0 = none has. From then on its records are
-- remembered for a while (forget.lua). Noted once a chunk and call. The same for all places of pre-queues: `hc`, one u32.

local call, pack, unpack_, rep
qm.bind(function() call, pack, unpack_, rep = redis.call, struct.pack, struct.unpack, string.rep end)

-- The present moment as it stands in `c`, never 0.
local function now_bytes(R)
  return pack("<I4", R.ds > 0 and R.ds or 1)
end

-- Ticket n ended in this call.
function qm.note_end(R, n)
  R.ended = R.ended or {}
  R.ended[qm.place(n)] = true
end

-- All tickets from `first` to `last` ended in this call, however many they are.
function qm.note_ends(R, first, last)
  if last < first then return end
  local k, to = qm.place(first), qm.place(last)
  call("SETRANGE", R.g .. "c", 4 * k, rep(now_bytes(R), to - k + 1))
end

-- A place of the pre-queue ended in this call, or all that were held.
function qm.note_places_end(R)
  call("SET", R.g .. "hc", now_bytes(R))
end

-- When a place last ended (ds).
function qm.places_ended(R)
  local data = call("GET", R.g .. "hc")
  return data and (unpack_("<I4", data)) or 0
end

-- Writes what was noted.
function qm.ends_save(R)
  local now = now_bytes(R)
  for k in pairs(R.ended) do call("SETRANGE", R.g .. "c", 4 * k, now) end
end

-- When a ticket of chunk k last ended (ds), or 0.
function qm.last_end(R, k)
  local data = call("GETRANGE", R.g .. "c", 4 * k, 4 * k + 3)
  if #data < 4 then return 0 end
  return (unpack_("<I4", data))
end
