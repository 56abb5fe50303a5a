-- Places per /56 and /48 of IPv6 (ENG-295), beside those of single addresses (addresses.lua): one subscriber may own
-- hundreds of /64. Hash `in`: first four bytes of an address (its /48) -> entries of net u16 (the /56) and count u32, by net.

-- How many times the cap a /56 and a /48 may hold.
local OF_56, OF_48 = 16, 256

local call, pack, unpack_, concat, sort, unpack_table
qm.bind(function()
  call, pack, unpack_, concat, sort, unpack_table =
    redis.call, struct.pack, struct.unpack, table.concat, table.sort, unpack
end)

local function net_counts(data)
  local counts = { all = 0 }
  for at = 1, #data, 6 do
    local net, count = unpack_("<I2I4", data, at)
    counts[net] = count
    counts.all = counts.all + count
  end
  return counts
end

-- Counts of the networks `keys` of a book, by key; net -> count, and their sum under `all`.
function qm.nets_load(R, name, keys)
  local nets = {}
  for from = 1, #keys, 1000 do
    local last = from + 999 < #keys and from + 999 or #keys
    local found = call("HMGET", R.g .. name .. "n", unpack_table(keys, from, last))
    for i = 1, #found do nets[keys[from + i - 1]] = net_counts(found[i] or "") end
  end
  return nets
end

-- True when /56 `net` or /48 `key` of a loaded book holds all that `cap` allows.
function qm.net_refused(book, key, net, cap)
  local counts, changes = book.nets[key], book.net_changes and book.net_changes[key]
  local narrow, wide = counts[net] or 0, counts.all
  if changes then narrow, wide = narrow + (changes[net] or 0), wide + changes.all end
  return narrow >= OF_56 * cap or wide >= OF_48 * cap
end

-- Notes `by` places of a network.
function qm.net_change(book, key, net, by)
  local all = book.net_changes
  if not all then
    all = {}
    book.net_changes = all
  end
  local changes = all[key]
  if not changes then
    changes = { all = 0 }
    all[key] = changes
  end
  changes[net] = (changes[net] or 0) + by
  changes.all = changes.all + by
end

-- The entries of `counts` (by net) with `changes`.
local function net_bytes(counts, changes)
  for net, by in pairs(changes) do counts[net] = (counts[net] or 0) + by end
  counts.all = nil
  local order, parts = {}, {}
  for net, count in pairs(counts) do
    if count > 0 then order[#order + 1] = net end
  end
  sort(order)
  for i = 1, #order do parts[i] = pack("<I2I4", order[i], counts[order[i]]) end
  return concat(parts)
end

-- Writes the noted changes of a book.
function qm.nets_save(R, name, book)
  local keys, set = {}, {}
  for key in pairs(book.net_changes) do keys[#keys + 1] = key end
  local nets = qm.nets_load(R, name, keys)
  for i = 1, #keys do
    local data = net_bytes(nets[keys[i]], book.net_changes[keys[i]])
    if data == "" then
      call("HDEL", R.g .. name .. "n", keys[i])
    else
      set[#set + 1] = keys[i]
      set[#set + 1] = data
    end
  end
  qm.hash_set(R.g .. name .. "n", set)
end
