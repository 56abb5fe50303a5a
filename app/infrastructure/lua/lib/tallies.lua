-- Counts that the web workers make and hand over about once a second: hash `n` of the generation. Fields: the name of
-- a count (Counted of visitor_counts.py); `h` and a rule's key: checks that the rule decided; `m` and the key: wall ms
-- of the last one. A rule's key is its id, action and pattern, so that a changed rule begins at nothing (ENG-203).

local call, unpack_table, concat
qm.bind(function() call, unpack_table, concat = redis.call, unpack, table.concat end)

local function rule_key(rule)
  return concat({ rule.id, rule.action, rule.pattern }, "\n")
end

-- Set of the keys of the rules in JSON list `text`.
function qm.rule_keys(text)
  local keys = {}
  for _, rule in ipairs(cjson.decode(text)) do keys[rule_key(rule)] = true end
  return keys
end

-- Drops the counts of rules that are not in JSON list `text`.
function qm.tallies_trim(R, text)
  local key, kept, gone = R.g .. "n", qm.rule_keys(text), {}
  for _, field in ipairs(call("HKEYS", key)) do
    local kind = field:sub(1, 1)
    if (kind == "h" or kind == "m") and not kept[field:sub(2)] and field:find("\n", 1, true) then
      gone[#gone + 1] = field
    end
  end
  if #gone > 0 then call("HDEL", key, unpack_table(gone)) end
end
