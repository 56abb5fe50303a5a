-- Arrivals while the queue is off (ENG-217): visitors at the door without a running session, each client counted once a
-- minute, of one address at most 16. Two hashes take turns, one a minute (lib/turns.lua): address 8 -> up to 16 entries
-- of client 6 bytes and second u32.

local CLIENTS = 16
local CLIENT, ENTRY = 6, 10
local MINUTE = 60
local LIFE_SEC = 180
-- No threshold is above it; beyond it nothing is remembered, so that a flood cannot fill the memory.
local LIMIT = 1000000

local sub, pack, unpack_, floor
qm.bind(function() sub, pack, unpack_, floor = string.sub, struct.pack, struct.unpack, math.floor end)

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

-- Counts the arrivals that were noted. Costs two to five commands a call, and nothing when there are none.
function qm.arrivals_count(R)
  local h, list = R.h, R.arrivals
  if not list then return end
  local second = floor(h.mono / 1000)
  local minute, addresses = floor(second / MINUTE), {}
  for i = 1, #list, 2 do addresses[#addresses + 1] = list[i] end
  local lists, is_begun = qm.turns_read(R, "a", minute, addresses)
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
  if any then qm.turns_save(R, "a", minute, changed, is_begun, LIFE_SEC) end
end
