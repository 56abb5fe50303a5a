-- Dropping the records of tickets that are over (ENG-274): whole chunks, oldest first, once none of their tickets ended
-- within LAPSED_TTL_MS, or when 200,000 younger ones are over too. Who still asks is told `expired`, which lets nobody in.
-- A chunk in which somebody still lives is passed over and kept in set `fs`, so that it holds up no other.

local KEPT = 200000
local EVERY_SEC = 10
local CHUNKS_A_CALL = 4

local call, byte, sub, floor, tonumber_, unpack_table
qm.bind(function()
  call, byte, sub, floor = redis.call, string.byte, string.sub, math.floor
  tonumber_, unpack_table = tonumber, unpack
end)

local CHUNK, TICKET_BYTES, WAITING, FLAG = qm.CHUNK, qm.TICKET_BYTES, qm.T.WAITING, qm.FLAG

-- True when chunk `k` is to be dropped if nobody in it lives.
local function is_due(R, k, ttl_ms)
  local h, last = R.h, (k + 1) * CHUNK
  if last > h.head then return false end
  if h.head - last - h.active - h.pending - h.passes_out >= KEPT then return true end
  local ended = qm.last_end(R, k)
  if ended == 0 then return qm.ticket_get(R, last) == nil end -- numbers that were given to nobody
  return (R.ds - ended) * 100 >= ttl_ms
end

-- First eight bytes of the cookie digests in `data` of chunk k, or nil when one of its tickets lives. Whoever waits before
-- the head was purged (purge.lua), unless a flush has still to be written.
local function owners_of(R, k, data)
  local owners, purged_to = {}, R.h.flush_up_to == 0 and R.h.purge_up_to or 0
  for at = 1, #data, TICKET_BYTES do
    local state = byte(data, at)
    local is_purged = state == WAITING and k * CHUNK + (at - 1) / TICKET_BYTES < purged_to
    if qm.is_live(state) and not is_purged then return nil end
    owners[#owners + 1] = sub(data, at + 24, at + 31)
    if byte(data, at + 1) >= FLAG.HAS_FROM and qm.has_from(sub(data, at, at + 1)) then -- purged with it
      qm.from_drop(R, k * CHUNK + (at - 1) / TICKET_BYTES + 1)
    end
  end
  return owners
end

local function drop(R, k)
  local key = R.g .. "t" .. k
  local data = call("GET", key) or ""
  local owners = owners_of(R, k, data)
  if not owners then return false end
  qm.ring_keep(R, k, data)
  if #owners > 0 then call("HDEL", R.g .. "o", unpack_table(owners)) end
  call("UNLINK", key, R.g .. "d" .. k)
  return true
end

-- Looks again at one of the chunks that were passed over.
local function look_back(R, ttl_ms)
  local k = tonumber_(call("SRANDMEMBER", R.g .. "fs") or "")
  if k and is_due(R, k, ttl_ms) and drop(R, k) then call("SREM", R.g .. "fs", k) end
end

-- Drops the places of the pre-queue once every ticket that they were drawn is dropped, and none of them ended within
-- `ttl_ms`.
local function drop_places(R, ttl_ms)
  local h = R.h
  if h.places == 0 or h.phase > 0 or call("EXISTS", R.g .. "hx") == 0 then return end
  if call("EXISTS", R.g .. "fs") == 1 or (R.ds - qm.places_ended(R)) * 100 < ttl_ms then return end
  local pre = qm.pre(R)
  if h.forgotten * CHUNK < pre.first + pre.count - 1 then return end
  local last = qm.place(h.places)
  for from = 0, last, 1000 do
    local names = {}
    for k = from, last < from + 999 and last or from + 999 do names[#names + 1] = R.g .. "h" .. k end
    call("UNLINK", unpack_table(names))
  end
  call("UNLINK", R.g .. "hx", R.g .. "pn")
end

-- Drops what may be dropped. `since`: second of the last tick (what other calls do in between does not count: in a busy
-- room a tick is hardly ever the first in its second); `ttl_ms`: how long tickets that are over are remembered.
function qm.forget(R, since, ttl_ms)
  local h = R.h
  if floor(h.second / EVERY_SEC) == floor(since / EVERY_SEC) then return end
  look_back(R, ttl_ms)
  for _ = 1, CHUNKS_A_CALL do
    local k = h.forgotten
    if not is_due(R, k, ttl_ms) then break end
    if not drop(R, k) then call("SADD", R.g .. "fs", k) end
    h.forgotten = k + 1
  end
  drop_places(R, ttl_ms)
end
