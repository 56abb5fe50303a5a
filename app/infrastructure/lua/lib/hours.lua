-- What the room did in each hour of the wall clock (ENG-232, ENG-237): string `s` of the running hour, hash `sh` of the
-- hours before it. app/domain/hour_record.py says what the bytes are.
--
-- Joins and passes are added when a second is over, so the record is touched once a second at most, and costs an idle
-- room one write in five seconds. Joins and passes of a running second that are not of this hour stand in it as a debt.

local HOUR_MS = 3600000
local KEPT_HOURS = 48
local SAMPLE_SEC = 5
local FORMAT = "<I4i4i4I4I4I4I4I4I4I4ddddddddd"
local BYTES = 112
local SAMPLE_BYTES = 8
qm.HOUR_BYTES, qm.HOUR_SAMPLE_BYTES = BYTES, SAMPLE_BYTES

local call, pack, unpack_, floor, max, min
qm.bind(function()
  call, pack, unpack_, floor, max, min =
    redis.call, struct.pack, struct.unpack, math.floor, math.max, math.min
end)

local function hour_pack(c)
  return pack(FORMAT, c.hour, c.joins, c.passes, c.peak_depth, c.peak_active, c.samples, c.blocked, c.warned, c.waits,
    c.wait_max, c.since, c.base, c.from, c.upto, c.depth_sum, c.wait_sum, c.weight, c.next, c.seed)
end

local function hour_unpack(data)
  local hour, joins, passes, peak_depth, peak_active, samples, blocked, warned, waits, wait_max, since, base, from,
    upto, depth_sum, wait_sum, weight, next_, seed = unpack_(FORMAT, data)
  return {
    hour = hour, joins = joins, passes = passes, peak_depth = peak_depth, peak_active = peak_active,
    samples = samples, blocked = blocked, warned = warned, waits = waits, wait_max = wait_max, since = since,
    base = base, from = from, upto = upto, depth_sum = depth_sum, wait_sum = wait_sum, weight = weight,
    next = next_, seed = seed,
  }
end

-- The running hour's record, read once a call and written when the room is closed.
function qm.hour_open(R)
  if not R.hour then R.hour = hour_unpack(call("GETRANGE", R.g .. "s", 0, BYTES - 1)) end
  return R.hour
end

-- Writes the record, if this call has opened it.
function qm.hour_save(R)
  local c = R.hour
  if not c then return end
  c.upto = R.h.mono
  call("SETRANGE", R.g .. "s", 0, hour_pack(c))
end

-- People in line, and before the doors open those in the pre-queue.
function qm.depth(R)
  if R.h.phase == 0 then return qm.waiting(R.h) end
  return qm.waiting_told(R) + qm.places_held(R)
end

-- Notes how many wait and how many are on the site, before that falls and at the end of an hour.
function qm.hour_peak(c, waiting, active)
  if waiting > c.peak_depth then c.peak_depth = min(waiting, 4294967295) end
  if active > c.peak_active then c.peak_active = active end
end

-- Joins of the running second; while the queue is off they are arrivals (arrivals.lua), which are none.
local function joins_now(h)
  return h.state == qm.S.BYPASS and 0 or h.now_joins
end

-- Adds the joins and passes of a second that is over.
function qm.hour_count(R)
  local h = R.h
  if h.hour_end == 0 or (h.now_joins == 0 and h.now_passes == 0) then return end
  local c = qm.hour_open(R)
  c.joins, c.passes = c.joins + joins_now(h), c.passes + h.now_passes
end

-- The room's state was `before`: what the running second has counted so far is added now, or never.
function qm.hour_state(R, before)
  local h = R.h
  local was_off, is_off = before == qm.S.BYPASS, h.state == qm.S.BYPASS
  if was_off == is_off or h.now_joins == 0 then return end
  local c = qm.hour_open(R)
  c.joins = c.joins + (is_off and h.now_joins or -h.now_joins)
end

-- Takes a sample of the line's length, once in five seconds of the room's clock.
function qm.hour_sample(R, since, now)
  if floor(since / SAMPLE_SEC) == floor(now / SAMPLE_SEC) then return end
  local c, waiting = qm.hour_open(R), qm.depth(R)
  c.samples, c.depth_sum = c.samples + 1, c.depth_sum + waiting
  qm.hour_peak(c, waiting, R.h.active)
end

local function archive(R, c)
  local key, kept = R.g .. "sh", min(c.waits, 256) * SAMPLE_BYTES
  local samples = kept > 0 and call("GETRANGE", R.g .. "s", BYTES, BYTES + kept - 1) or ""
  call("HSET", key, c.hour, hour_pack(c) .. samples)
  if call("HLEN", key) <= KEPT_HOURS then return end
  for _, hour in ipairs(call("HKEYS", key)) do
    if tonumber(hour) < c.hour - KEPT_HOURS then call("HDEL", key, hour) end
  end
end

-- The moment (M) of an hour's boundary at wall time `at`, not before second `since`, the last one that was counted.
local function mono_of(h, at, since)
  return max(h.mono - (h.wall - at), since * 1000)
end

local function fresh(R, start, since)
  local h = R.h
  local from = mono_of(h, start, since)
  local c = {
    hour = start / HOUR_MS, joins = -joins_now(h), passes = -h.now_passes, peak_depth = 0, peak_active = 0, samples = 0,
    blocked = 0, warned = 0, waits = 0, wait_max = 0, since = h.wall, base = 0, from = from, upto = from,
    depth_sum = 0, wait_sum = 0, weight = 0, next = 0, seed = h.wall % 2147483646 + 1,
  }
  qm.hour_peak(c, qm.depth(R), h.active)
  return c
end

-- `since`: the last second that was counted. Begins the record of the hour that it is, when the running one is over, or when there is none since a rebuild.
function qm.hour_turn(R, since)
  local h = R.h
  if h.wall < h.hour_end then return end
  local start = floor(h.wall / HOUR_MS) * HOUR_MS
  local stored = R.hour or call("STRLEN", R.g .. "s") >= BYTES and qm.hour_open(R)
  if stored and h.hour_end > 0 then
    stored.joins, stored.passes = stored.joins + joins_now(h), stored.passes + h.now_passes
    stored.upto = max(mono_of(h, h.hour_end, since), stored.from)
    qm.hour_peak(stored, qm.depth(R), h.active)
    archive(R, stored)
    stored = nil
  elseif stored then -- the room's clock began anew with the rebuild
    if stored.hour * HOUR_MS == start then
      stored.base, stored.from = stored.base + stored.upto - stored.from, h.mono
    else
      archive(R, stored)
      stored = nil
    end
  end
  R.hour = stored or fresh(R, start, since)
  h.hour_end = start + HOUR_MS
end

-- Records of the running hour, as it stands at this moment, and of the one before it; "" = none.
function qm.hours_last(R)
  local stored, h = call("GET", R.g .. "s") or "", R.h
  if #stored < BYTES then return { "", "" } end
  local c = hour_unpack(stored)
  c.joins, c.passes = c.joins + joins_now(h), c.passes + h.now_passes
  if h.wall < h.hour_end then c.upto = h.mono end
  qm.hour_peak(c, qm.depth(R), h.active)
  return { hour_pack(c) .. stored:sub(BYTES + 1), call("HGET", R.g .. "sh", c.hour - 1) or "" }
end
