-- Changing fields of a room: configuration, header, marks, fact. Marks are what later decisions need of earlier changes;
-- they stand in the configuration hash beside the salt, and a fold makes them again (domain/fold.py):
-- mark_rate, mark_rate_at: the last rate that a person set and when (wall ms; 0 = with the room) · mark_switch,
-- mark_switch_at: the last switch by threshold and when · mark_own: there while the queue is open by such a switch ·
-- mark_leader: highest epoch of a leader that has decided about the room · mark_last: the last change of state or rate,
-- for people (domain/fold_marks.py says what is in it).

local call, format, concat, tonumber_, find, sub
qm.bind(function()
  call, format, concat, tonumber_ = redis.call, string.format, table.concat, tonumber
  find, sub = string.find, string.sub
end)

local BY_HAND = { ['"autotune"'] = false, ['"threshold"'] = false }

local function mark_switch(R, state)
  local is_opened = state == qm.S.ACTIVE
  call("HSET", R.p .. "cfg", "mark_switch", is_opened and '"opened"' or '"closed"', "mark_switch_at",
    format("%.0f", R.h.wall))
  if is_opened then
    call("HSET", R.p .. "cfg", "mark_own", "true")
  else
    call("HDEL", R.p .. "cfg", "mark_own")
  end
end

local function mark(R, changed, why)
  local by_hand = BY_HAND[why] == nil
  for _, field in ipairs(changed) do
    if field[1] == "rate_per_minute" and by_hand then
      call("HSET", R.p .. "cfg", "mark_rate", field[2], "mark_rate_at", format("%.0f", R.h.wall))
    elseif field[1] == "state" and by_hand then
      call("HDEL", R.p .. "cfg", "mark_own")
    elseif field[1] == "state" then
      mark_switch(R, tonumber_(field[2]))
    end
  end
end

-- The name in `actor`: a JSON string, behind which further members may stand. A quote within it is never bare.
local function name_of(actor)
  local at = find(actor, '","by":', 1, true)
  return at and sub(actor, 1, at) or actor
end

local function mark_last(R, changed, state, rate, actor, why)
  local kind, from, to
  for _, field in ipairs(changed) do
    if field[1] == "state" then
      kind, from, to = "state", state, field[2]
    elseif field[1] == "rate_per_minute" and not kind then
      kind, from, to = "rate", rate, field[2]
    end
  end
  if kind then
    call("HSET", R.p .. "cfg", "mark_last", format('{"at":%.0f,"by":%s,"auto":%s,"kind":"%s","from":%.0f,"to":%s}',
      R.h.wall, name_of(actor), BY_HAND[why] == nil and "false" or "true", kind, from, to))
  end
end

-- Fields whose change is the fact `scheduled` (ENG-257); the others make `room_updated`.
local OF_SCHEDULE = { opens_at = true, pre_queue_max_per_ip = true }

local function body_of(R, parts, actor, more)
  return '{"changes":{' .. concat(parts, ",") .. '},"actor":' .. actor .. ',"cfg_ver":' .. R.h.cfg_ver
    .. ',"updated_at":' .. format("%.0f", R.h.wall) .. more .. "}"
end

local function facts_of(R, changed, actor, why, figures)
  local schedule, rest, seq = {}, {}, nil
  for _, field in ipairs(changed) do
    local parts = OF_SCHEDULE[field[1]] and schedule or rest
    parts[#parts + 1] = '"' .. field[1] .. '":' .. field[2]
  end
  if #schedule > 0 then
    seq = qm.fact(R, qm.FACT.SCHEDULED, body_of(R, schedule, actor, ',"pre_queue":' .. qm.places_held(R)))
  end
  if #rest > 0 then
    local more = ',"why":' .. why .. (figures and ',"figures":' .. figures or "")
    seq = qm.fact(R, qm.FACT.ROOM_UPDATED, body_of(R, rest, actor, more))
  end
  return seq
end

-- Applies `changed` (pairs of qm.config_changed, not empty). `light`: only state and rate; `actor`, `why`, `figures`:
-- JSON. Returns the seq of the last fact. The room is the caller's to close.
function qm.room_change(R, changed, light, actor, why, figures)
  local h = R.h
  qm.accrue(h) -- what was earned so far was earned at the old rate
  if h.credit > 1 then h.credit = 1 end
  local state, rate, bound = h.state, h.rate, h.session_ip_cap
  local ttl, longest, presence = h.session_ttl, h.session_max, h.presence
  qm.config_to_header(h, changed)
  qm.hour_state(R, state)
  if h.session_ttl < ttl or h.session_max < longest or h.presence < presence then h.rescore = 1 end
  if h.session_ip_cap ~= bound then qm.bound_changed(R) end
  qm.config_store(R.p, changed)
  for _, field in ipairs(changed) do
    if field[1] == "rules" then qm.tallies_trim(R, field[2]) end
  end
  mark(R, changed, why)
  mark_last(R, changed, state, rate, actor, why)
  if not light then h.cfg_ver = h.cfg_ver + 1 end
  h.updated_at = h.wall
  local opens_at = qm.opening_in(changed)
  if opens_at then qm.schedule(R, opens_at) end
  return facts_of(R, changed, actor, why, figures)
end

-- True when the leader of `epoch` may decide about the room: no later one has (FLT-026). It is the latest from now on.
function qm.leader_enter(R, epoch)
  local known = tonumber_(call("HGET", R.p .. "cfg", "mark_leader")) or 0
  if epoch < known then return false end
  if epoch > known then call("HSET", R.p .. "cfg", "mark_leader", format("%.0f", epoch)) end
  return true
end

-- Number behind mark `name`, or nil.
function qm.mark_number(R, name)
  return tonumber_(call("HGET", R.p .. "cfg", name))
end
