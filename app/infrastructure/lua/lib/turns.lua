-- What is remembered of an address for a while only. Two hashes `<name>0` and `<name>1` take turns, each as long as that
-- while: what is written goes into the current one, what is read may stand in the one before, and what is older goes with
-- its hash. So nothing has to be looked for that is over.

local STAMP = "" -- field of the turn that a hash belongs to; addresses have 8 bytes

local call, tonumber_, unpack_table
qm.bind(function() call, tonumber_, unpack_table = redis.call, tonumber, unpack end)

local function read(R, name, turn, fields)
  local found = call("HMGET", R.g .. name .. turn % 2, unpack_table(fields))
  if tonumber_(found[1]) == turn then return found end
  return {}
end

-- Strings of `addresses` at turn number `turn` ("" = none), by address, and whether the current hash has been begun.
-- At most 1000 addresses.
function qm.turns_read(R, name, turn, addresses)
  local fields, lists = { STAMP }, {}
  for i = 1, #addresses do fields[i + 1] = addresses[i] end
  local now, before = read(R, name, turn, fields), read(R, name, turn - 1, fields)
  for i = 1, #addresses do lists[addresses[i]] = now[i + 1] or before[i + 1] or "" end
  return lists, now[1] ~= nil
end

-- Writes strings by address. `life_sec`: two turns and a little, after which the hash goes by itself.
function qm.turns_save(R, name, turn, changed, is_begun, life_sec)
  local key, pairs_ = R.g .. name .. turn % 2, {}
  if not is_begun then
    call("UNLINK", key)
    pairs_ = { STAMP, turn }
  end
  for address, list in pairs(changed) do
    pairs_[#pairs_ + 1] = address
    pairs_[#pairs_ + 1] = list
  end
  qm.hash_set(key, pairs_)
  if not is_begun then call("EXPIRE", key, life_sec) end
end
