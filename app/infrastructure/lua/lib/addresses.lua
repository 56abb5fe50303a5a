-- Waiting tickets per address (ENG-160 ... ENG-165). Changes are gathered and written once, when the room is closed.

local call, tonumber_, sub, unpack_table
qm.bind(function() call, tonumber_, sub, unpack_table = redis.call, tonumber, string.sub, unpack end)

-- Reads the counts of `addresses` (a list of 8-byte strings, repeats allowed) in one command.
function qm.addresses_load(R, addresses)
  if #addresses == 0 then return end
  local found = call("HMGET", R.g .. "i", unpack_table(addresses))
  for i = 1, #addresses do R.counts[addresses[i]] = tonumber_(found[i]) or 0 end
end

-- Waiting tickets of a loaded address, with the changes of this call.
function qm.address_count(R, address)
  return R.counts[address] + (R.addresses[address] or 0)
end

-- Notes a change of `by` (1 or -1).
function qm.address_change(R, address, by)
  R.addresses[address] = (R.addresses[address] or 0) + by
end

-- Address of a ticket record.
function qm.address_of(rec)
  return sub(rec, 17, 24)
end

local function adjust(key, address, by)
  if call("HINCRBY", key, address, by) <= 0 then call("HDEL", key, address) end
end

-- Writes the noted changes.
function qm.addresses_save(R)
  local key, known = R.g .. "i", {}
  for address, by in pairs(R.addresses) do
    local count = R.counts[address]
    if by ~= 0 and count and count + by > 0 then
      known[#known + 1] = address
      known[#known + 1] = count + by
    elseif by ~= 0 then
      adjust(key, address, by)
    end
  end
  for i = 1, #known, 1000 do call("HSET", key, unpack_table(known, i, i + 999 < #known and i + 999 or #known)) end
end
