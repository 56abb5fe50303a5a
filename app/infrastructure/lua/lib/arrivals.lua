-- Arrivals while the queue is off (ENG-217): visitors at the door without a running session, each client counted once a
-- minute, of one address at most 16. Two hashes take turns, one a minute: address 8 -> up to 16 entries of client 6
-- bytes and second u32. A visitor that comes again is looked for in both.

local CLIENTS = 16
local CLIENT, ENTRY = 6, 10
local MINUTE = 60
local LIFE_SEC = 180
-- No threshold is above it; beyond it nothing is remembered, so that a flood cannot fill the memory.
local LIMIT = 1000000
local STAMP = "" -- field of the minute a hash belongs to; addresses have 8 bytes

local call, sub, pack, unpack_, floor, tonumber_, unpack_table
qm.bind(function()
  call, sub, pack, unpack_ = redis.call, string.sub, struct.pack, struct.unpack
  floor, tonumber_, unpack_table = math.floor, tonumber, unpack
end)

-- Notes one arrival of this call. `address`: 8 bytes, `client`: at least 6 bytes of the digest of address and agent.
function qm.arrive(R, address, client)
  local list = R.arrivals
  if not list then
    list = {}
    R.arrivals = list
  end
  list[#list + 1] = address
  list[#list + 1] = sub(client, 1, CLIENT)
end

-- Entries of `list` that are younger than a minute at `second`, whether `client` is one, and how many there are.
local function live(list, client, second)
  local kept, known, count = "", false, 0
  for at = 1, #list, ENTRY do
    if unpack_("<I4", list, at + CLIENT) > second - MINUTE then
      kept, count = kept .. sub(list, at, at + ENTRY - 1), count + 1
      known = known or sub(list, at, at + CLIENT - 1) == client
    end
  end
  return kept, known, count
end

-- What the hash of `minute` has for `fields` (the stamp first), or an empty table when it belongs to an older minute.
local function read(R, minute, fields)
  local found = call("HMGET", R.g .. "a" .. minute % 2, unpack_table(fields))
  if tonumber_(found[1]) == minute then return found end
  return {}
end

-- Lists by address, the current minute's before the last one's, which it carries on.
local function load_lists(R, minute, fields)
  local now, before, lists = read(R, minute, fields), read(R, minute - 1, fields), {}
  for i = 2, #fields do lists[fields[i]] = now[i] or before[i] or "" end
  return lists, now[1] ~= nil
end

local function save_lists(R, minute, changed, is_begun)
  local key, pairs_ = R.g .. "a" .. minute % 2, {}
  if not is_begun then
    call("UNLINK", key)
    pairs_ = { STAMP, minute }
  end
  for address, list in pairs(changed) do
    pairs_[#pairs_ + 1] = address
    pairs_[#pairs_ + 1] = list
  end
  for i = 1, #pairs_, 1000 do
    call("HSET", key, unpack_table(pairs_, i, i + 999 < #pairs_ and i + 999 or #pairs_))
  end
  if not is_begun then call("EXPIRE", key, LIFE_SEC) end
end

-- Counts the arrivals that were noted. Costs two to five commands a call, and nothing when there are none.
function qm.arrivals_count(R)
  local h, list = R.h, R.arrivals
  if not list then return end
  local second = floor(h.mono / 1000)
  local minute, fields = floor(second / MINUTE), { STAMP }
  for i = 1, #list, 2 do fields[#fields + 1] = list[i] end
  local lists, is_begun = load_lists(R, minute, fields)
  local changed, any = {}, false
  for i = 1, #list, 2 do
    local address, client = list[i], list[i + 1]
    local kept, known, count = live(lists[address], client, second)
    if not known and count < CLIENTS and h.min_joins + h.now_joins < LIMIT then
      h.now_joins = h.now_joins + 1
      lists[address] = kept .. client .. pack("<I4", second)
      changed[address], any = lists[address], true
    end
  end
  if any then save_lists(R, minute, changed, is_begun) end
end
