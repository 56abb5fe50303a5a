-- Configuration: the `cfg` hash holds every field as JSON, the header those numbers that the engine decides by.

local function threshold(json)
  local activate = json ~= "null" and cjson.decode(json)
  return activate and activate.enabled and activate.joins_per_min or 0
end

local HEADER_OF = {
  state = "state", rate_per_minute = "rate", max_concurrent = "max_concurrent", passed_ttl_sec = "passed_ttl",
  session_ttl_sec = "session_ttl", session_max_sec = "session_max", presence_sec = "presence",
  queue_max_per_ip = "ip_cap", pre_queue_max_per_ip = "pre_ip_cap", session_max_per_ip = "session_ip_cap",
}

-- Fields that are acknowledged before their fact is committed, and that do not raise cfg_ver (ENG-005).
local LIGHT = { state = true, rate_per_minute = true }

-- List of { field, JSON } from args[first] to args[last] (default: the end).
function qm.config_pairs(args, first, last)
  local fields = {}
  for i = first, last or #args, 2 do fields[#fields + 1] = { args[i], args[i + 1] } end
  return fields
end

-- Copies the numbers into the header; null = 0.
function qm.config_to_header(h, fields)
  for _, field in ipairs(fields) do
    local name = HEADER_OF[field[1]]
    if name then h[name] = tonumber(field[2]) or 0 end
    if field[1] == "auto_activate" then h.auto_joins = threshold(field[2]) end
    if field[1] == "auto_activate" or name == "state" then h.auto_since = 0 end
  end
end

-- The opening time among the fields: wall ms, 0 = none, nil = not named.
function qm.opening_in(fields)
  for _, field in ipairs(fields) do
    if field[1] == "opens_at" then return tonumber(field[2]) or 0 end
  end
  return nil
end

-- Writes the fields into the hash.
function qm.config_store(p, fields)
  for _, field in ipairs(fields) do redis.call("HSET", p .. "cfg", field[1], field[2]) end
end

-- Those of `fields` that differ from what is stored, and whether they are all light.
function qm.config_changed(p, fields)
  local changed, light = {}, true
  for _, field in ipairs(fields) do
    if redis.call("HGET", p .. "cfg", field[1]) ~= field[2] then
      changed[#changed + 1] = field
      light = light and LIGHT[field[1]] == true
    end
  end
  return changed, light
end
