-- Churn (ENG-293): from the ticket on that is the 3 x cap-th one an address leaves within ten minutes, a place that it
-- leaves goes on counting for 60 s. Leaves of an address, two hashes `x` in turns (lib/turns.lua): entries of slot of
-- ten seconds u32 and count u32, old to new. Places that go on counting, one list a book (lib/addresses.lua), `v` and
-- the book's name: due ds u32, place 10; each is given back when it is due.

local TURN_SEC, LIFE_SEC = 600, 1300
local SLOT_MS, WINDOW = 10000, 60
local ENTRY = 8
local HOLD_DS = 600
local MANY = 1000 -- leaves that count as churn where there is no cap
local LIMIT = 500

local call, sub, pack, unpack_, floor
qm.bind(function() call, sub, pack, unpack_, floor = redis.call, string.sub, struct.pack, struct.unpack, math.floor end)

-- Notes that the place which begins at `at` in `data` was left by its holder; its count was given back already.
function qm.place_left(R, name, data, at)
  local left = R.left
  if not left then
    left = {}
    R.left = left
  end
  left[#left + 1] = { name, sub(data, at, at + 9) }
end

local function turn_of(h)
  return floor(h.mono / 1000 / TURN_SEC)
end

-- Entries of `list` within ten minutes before `slot`, their number, and that of the last minute.
local function live(list, slot)
  local from, all, minute = 1, 0, 0
  for at = 1, #list, ENTRY do
    local when, count = unpack_("<I4I4", list, at)
    if when < slot - WINDOW then
      from = at + ENTRY
    else
      all = all + count
      if when > slot - 6 then minute = minute + count end
    end
  end
  return sub(list, from), all, minute
end

local function with_one_more(list, slot)
  local last = #list - ENTRY + 1
  if last > 0 then
    local when, count = unpack_("<I4I4", list, last)
    if when == slot then return sub(list, 1, last - 1) .. pack("<I4I4", slot, count + 1) end
  end
  return list .. pack("<I4I4", slot, 1)
end

local function threshold(h, name)
  local cap = name == "i" and h.ip_cap or h.pre_ip_cap
  return cap > 0 and 3 * cap or MANY
end

-- Counts the places that were left in this call, and lets those go on counting that are churn.
function qm.churn_count(R)
  local h, left, addresses = R.h, R.left, {}
  local slot, turn = floor(h.mono / SLOT_MS), turn_of(h)
  for i = 1, #left do addresses[i] = sub(left[i][2], 3, 10) end
  local lists, is_begun = qm.turns_read(R, "x", turn, addresses)
  for i = 1, #left do
    local name, place, address = left[i][1], left[i][2], addresses[i]
    local kept, count = live(lists[address], slot)
    lists[address] = with_one_more(kept, slot)
    if count + 1 >= threshold(h, name) then
      qm.place_change(R, name, place, 1, 1)
      call("RPUSH", R.g .. "v" .. name, pack("<I4", R.ds + HOLD_DS) .. place)
    end
  end
  qm.turns_save(R, "x", turn, lists, is_begun, LIFE_SEC)
end

local function give_back(R, name)
  local key, done = R.g .. "v" .. name, 0
  local held = call("LRANGE", key, 0, LIMIT - 1)
  while held[done + 1] and unpack_("<I4", held[done + 1]) <= R.ds do
    done = done + 1
    qm.place_change(R, name, held[done], 5, -1)
  end
  if done > 0 then call("LPOP", key, done) end
end

-- Gives places back that have counted long enough. In the first tick of a second; `since`: second of the last tick.
function qm.churn_end(R, since)
  if R.h.second == since then return end
  give_back(R, "i")
  if R.h.places > 0 then give_back(R, "ip") end
end

-- True when a room without cap refuses the loaded place at `at` in `data`: a thousand places of its address that were
-- left go on counting.
function qm.churn_refused(R, name, data, at)
  if qm.place_count(R, name, data, at) < MANY then return false end
  local address = sub(data, at + 2, at + 9)
  local lists = qm.turns_read(R, "x", turn_of(R.h), { address })
  local _, all, minute = live(lists[address], floor(R.h.mono / SLOT_MS))
  return math.min(minute, all - MANY + 1) >= MANY
end
