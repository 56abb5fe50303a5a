-- Slots per address (ENG-296): running sessions and unused passes that hold one. Hash `u`: address -> slots; sorted set
-- `ut`: addresses with more than one, by their slots. With a bound (session_ip_cap) the set `wb` has the holders at
-- the door whose address is at it: member = address, then ticket u32 big-endian, so that those of one address are
-- neighbours in order. They hold nobody up, and the first of them goes back to `w` when a slot of the address is freed.

local PAGE = 20
local LIMIT = 500

local call, tonumber_, sub, pack, unpack_
qm.bind(function()
  call, tonumber_, sub, pack, unpack_ = redis.call, tonumber, string.sub, struct.pack, struct.unpack
end)

-- Notes `by` slots (1 or -1) for the address that begins at `at` in `data`.
function qm.slot_change(R, data, at, by)
  local changes, address = R.slots, sub(data, at, at + 7)
  if not changes then
    changes = {}
    R.slots = changes
  end
  changes[address] = (changes[address] or 0) + by
end

-- Writes one slot more for the address of `rec` at once, for a call that may not save the room.
function qm.slot_put(R, rec)
  local address = sub(rec, 17, 24)
  local count = call("HINCRBY", R.g .. "u", address, 1)
  if count > 1 then call("ZADD", R.g .. "ut", count, address) end
  if R.slots_known and R.slots_known[address] then R.slots_known[address] = count end
end

-- Slots that an address held before this call. Read once.
local function slots_before(R, address)
  local known = R.slots_known
  if not known then
    known = {}
    R.slots_known = known
  end
  local count = known[address]
  if not count then
    count = tonumber_(call("HGET", R.g .. "u", address) or 0)
    known[address] = count
  end
  return count
end

-- True when the address that begins at `at` in `data` holds all the slots it may.
function qm.at_bound(R, data, at)
  local bound = R.h.session_ip_cap
  if bound == 0 then return false end
  local address = sub(data, at, at + 7)
  return slots_before(R, address) + (R.slots and R.slots[address] or 0) >= bound
end

local function member_of(rec, n)
  return sub(rec, 17, 24) .. pack(">I4", n)
end

-- Puts n at the door among those whose address is at the bound.
function qm.bound_stand(R, n, rec)
  call("ZREM", R.g .. "w", n)
  call("ZADD", R.g .. "wb", 0, member_of(rec, n))
end

-- Takes n away from there.
function qm.bound_leave(R, n, rec)
  call("ZREM", R.g .. "wb", member_of(rec, n))
end

-- A slot of the address of `rec` was freed: the first present holder of it who was held back may have the next one.
function qm.bound_release(R, rec)
  if R.h.session_ip_cap == 0 or qm.at_bound(R, rec, 17) then return end
  local address = sub(rec, 17, 24)
  local page = call("ZRANGEBYLEX", R.g .. "wb", "[" .. address, "[" .. address .. "\255\255\255\255\255", "LIMIT", 0, PAGE)
  for i = 1, #page do
    local n = unpack_(">I4", page[i], 9)
    call("ZREM", R.g .. "wb", page[i])
    if qm.door_return(R, n) then return end
  end
end

-- The bound was changed: those it held back stand in order again, and whom the new one holds back is put aside anew.
-- At most LIMIT; the others come back with their next question, within seconds.
function qm.bound_changed(R)
  local members, standing = call("ZRANGE", R.g .. "wb", 0, LIMIT - 1), {}
  for i = 1, #members do
    local n = unpack_(">I4", members[i], 9)
    standing[2 * i - 1], standing[2 * i] = n, n
  end
  call("UNLINK", R.g .. "wb")
  qm.scores_set(R.g .. "w", standing)
end

-- Writes the noted changes.
function qm.slots_save(R)
  local key, addresses, before = R.g .. "u", {}, {}
  for address, by in pairs(R.slots) do
    if by ~= 0 then addresses[#addresses + 1] = address end
  end
  qm.hash_counts(key, addresses, before)
  local set, dropped, many = {}, {}, {}
  for i = 1, #addresses do
    local address = addresses[i]
    local count = before[address] + R.slots[address]
    if count > 0 then
      set[#set + 1] = address
      set[#set + 1] = count
    else
      dropped[#dropped + 1] = address
    end
    if count > 1 then
      many[#many + 1] = count
      many[#many + 1] = address
    elseif before[address] > 1 then
      call("ZREM", key .. "t", address)
    end
  end
  qm.hash_set(key, set)
  qm.hash_drop(key, dropped)
  qm.scores_set(key .. "t", many)
end

-- The largest number of slots of one address.
function qm.slots_top(R)
  local top = call("ZREVRANGE", R.g .. "ut", 0, 0, "WITHSCORES")
  if top[2] then return tonumber_(top[2]) end
  return R.h.active + R.h.pending > 0 and 1 or 0
end
