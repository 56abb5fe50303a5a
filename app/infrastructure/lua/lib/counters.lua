-- Joins, passes, paid passes and freed slots of the last 60 s: the running second in the header (`now_`), the 59
-- seconds before it in a ring of 60 x 4 u32, their sums in the header (`min_`).

local SLOT_BYTES = 16
local MINUTE = 60
local LAST_TIME = 48 -- byte of the header at which `last_time` stands (layout.HEADER_FIELDS)

local call, pack, unpack_, floor, max
qm.bind(function()
  call, pack, unpack_, floor, max = redis.call, struct.pack, struct.unpack, math.floor, math.max
end)

local function drop(R, second)
  local h, at = R.h, (second % MINUTE) * SLOT_BYTES
  local old = call("GETRANGE", R.p .. "k", at, at + SLOT_BYTES - 1)
  if #old == SLOT_BYTES then
    local joins, passes, paid, freed = unpack_("<I4I4I4I4", old)
    h.min_joins, h.min_passes = h.min_joins - joins, h.min_passes - passes
    h.min_paid, h.min_freed = h.min_paid - paid, h.min_freed - freed
  end
end

-- Slots are written when the room is closed: a call that leaves the header as it was has to leave the ring as well.
local function store(R, second, joins, passes, paid, freed)
  local slots = R.seconds
  if not slots then
    slots = {}
    R.seconds = slots
  end
  slots[#slots + 1] = { (second % MINUTE) * SLOT_BYTES, pack("<I4I4I4I4", joins, passes, paid, freed) }
end

-- Writes the seconds that are over.
function qm.seconds_save(R)
  for _, slot in ipairs(R.seconds) do call("SETRANGE", R.p .. "k", slot[1], slot[2]) end
end

local function restart(R)
  local h = R.h
  call("DEL", R.p .. "k")
  h.min_joins, h.min_passes, h.min_paid, h.min_freed = 0, 0, 0, 0
end

local function next_second(R, since, now)
  local h = R.h
  local watches = h.auto_joins > 0
  if watches then qm.auto_watch(h, h.min_joins + h.now_joins, since + 1) end
  if now - since >= MINUTE then
    restart(R)
    if watches then qm.auto_watch(h, 0, now) end
  else
    store(R, since, h.now_joins, h.now_passes, h.now_paid, h.now_freed)
    h.min_joins, h.min_passes = h.min_joins + h.now_joins, h.min_passes + h.now_passes
    h.min_paid, h.min_freed = h.min_paid + h.now_paid, h.min_freed + h.now_freed
    for second = since + 1, now do
      if watches and second == now and now > since + 1 then qm.auto_watch(h, h.min_joins, now) end
      drop(R, second)
      if second < now then store(R, second, 0, 0, 0, 0) end
    end
  end
  h.now_joins, h.now_passes, h.now_paid, h.now_freed = 0, 0, 0, 0
  h.second = now
end

-- Closes the seconds, and the hour, that are over. Costs two commands once a second, nothing otherwise.
function qm.counters_roll(R)
  local h = R.h
  local now = floor(h.mono / 1000)
  local since = h.second
  if now == since and h.wall < h.hour_end then return end
  if now ~= since then
    qm.hour_count(R)
    next_second(R, since, now)
  end
  qm.hour_turn(R, since)
  qm.hour_sample(R, since, now)
end

-- Joins or arrivals of the 60 full seconds before the running one: the number that thresholds are compared with.
function qm.joins_last_minute(R)
  local at = (R.h.second % MINUTE) * SLOT_BYTES
  local oldest = call("GETRANGE", R.p .. "k", at, at + 3)
  return R.h.min_joins + (#oldest == 4 and unpack_("<I4", oldest) or 0)
end

-- The same as the card shows it: what came in the running second counts at once, and it never falls behind the number
-- that thresholds are compared with.
function qm.joins_per_min(R)
  local running, full = R.h.min_joins + R.h.now_joins, qm.joins_last_minute(R)
  return running > full and running or full
end

-- Joins and passes of the last minute as they stand at this moment, for a call that writes nothing. A room that nobody
-- ticks has to show it: by its own clock, which such calls move by 5 s at most, its last minute would last for ever.
function qm.minute_told(R)
  local h = R.h
  local joins, passes = qm.joins_per_min(R), h.min_passes + h.now_passes
  local last = unpack_("<d", call("GETRANGE", R.key, LAST_TIME, LAST_TIME + 7))
  local unseen = max(0, floor((h.last_time - last - qm.STEP_LIMIT) / 1000))
  local over = floor(h.mono / 1000) - h.second + unseen
  if over <= 0 then return joins, passes end
  if over >= MINUTE then return 0, 0 end
  joins = h.min_joins + h.now_joins
  for second = h.second + 1, h.second + over do
    local slot = call("GETRANGE", R.p .. "k", (second % MINUTE) * SLOT_BYTES, (second % MINUTE) * SLOT_BYTES + 7)
    if #slot == 8 then
      local old_joins, old_passes = unpack_("<I4I4", slot)
      joins, passes = joins - old_joins, passes - old_passes
    end
  end
  return joins, passes
end

-- Release rate per minute (ENG-234) and whether an estimate from it is a lower bound only (ENG-236).
function qm.release_rate(h)
  if h.state ~= qm.S.ACTIVE or h.phase > 0 or h.rate == 0 then return 0, 0 end
  local at_cap = h.max_concurrent > 0 and h.active + h.pending >= h.max_concurrent
  if at_cap and h.mono - h.freed_at >= 60000 then return h.rate, 1 end
  local paid = h.min_paid + h.now_paid
  if paid > 0 and paid < h.rate and h.line_since > 0 and h.mono - h.line_since >= 60000 then return paid, 0 end
  return h.rate, 0
end
