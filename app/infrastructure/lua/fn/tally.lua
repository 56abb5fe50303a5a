-- Purpose: Adds what one process has counted since it last did: plain counts, and checks that rules decided (ENG-203).
-- Keys: header
-- Args: gen (0 = any) · cfg_ver of the rules · number of plain counts · then pairs name, increase · then triples rule
--   key, increase, time of the last one (wall ms)
-- Returns: code
-- Errors: NOHEADER, NOROOM, STALE (another generation), FENCED
-- Facts: none
-- Cost: O(counts)

-- Rules that were changed since the caller read them are counted no more.
local function current(R, cfg_ver)
  if tonumber(cfg_ver) == R.h.cfg_ver then return nil end
  return qm.rule_keys(redis.call("HGET", R.p .. "cfg", "rules") or "[]")
end

local HOURLY = { blocked = true, warned = true }

local function add_plain(R, key, name, increase)
  redis.call("HINCRBY", key, name, increase)
  if not HOURLY[name] then return end
  local c = qm.hour_open(R)
  c[name] = c[name] + increase
end

local function add_rule(key, rule, increase, at)
  redis.call("HINCRBY", key, "h" .. rule, increase)
  local last = redis.call("HGET", key, "m" .. rule)
  if not last or tonumber(last) < tonumber(at) then redis.call("HSET", key, "m" .. rule, at) end
end

qm.fn("tally", {}, function(keys, args)
  local R, code = qm.room_enter(keys[1], args[1], 0)
  if not R then return { code } end
  local key, first_rule = R.g .. "n", 4 + 2 * tonumber(args[3])
  for i = 4, first_rule - 1, 2 do add_plain(R, key, args[i], args[i + 1]) end
  local known = first_rule <= #args and current(R, args[2])
  for i = first_rule, #args, 3 do
    if not known or known[args[i]] then add_rule(key, args[i], args[i + 1], args[i + 2]) end
  end
  if R.hour then qm.room_close(R) end
  return { qm.CODE.OK }
end)
