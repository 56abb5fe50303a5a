-- Many members of a hash or sorted set in one command, in slices: `unpack` of a table is limited.

local call, tonumber_, unpack_table
qm.bind(function() call, tonumber_, unpack_table = redis.call, tonumber, unpack end)

-- Calls `command` on `key` with the values in slices.
local function in_slices(command, key, values)
  for i = 1, #values, 1000 do
    call(command, key, unpack_table(values, i, i + 999 < #values and i + 999 or #values))
  end
end

-- Sets field, value, ... of a hash.
function qm.hash_set(key, pairs_)
  in_slices("HSET", key, pairs_)
end

-- Deletes fields of a hash.
function qm.hash_drop(key, fields)
  in_slices("HDEL", key, fields)
end

-- Sets score, member, ... of a sorted set.
function qm.scores_set(key, pairs_)
  in_slices("ZADD", key, pairs_)
end

-- Reads the numbers of `fields` into `counts`; what is missing is 0.
function qm.hash_counts(key, fields, counts)
  for i = 1, #fields, 1000 do
    local last = i + 999 < #fields and i + 999 or #fields
    local found = call("HMGET", key, unpack_table(fields, i, last))
    for j = 1, #found do counts[fields[i + j - 1]] = tonumber_(found[j]) or 0 end
  end
end
