-- Opening a room for one call: R holds the header `h`, the key bases `p` and `g`, the clock `ds`, and what is to be
-- written at the end (close.lua).

-- Work of one call, so that it holds Valkey for a few ms only: a pass given to the line costs 1, a deadline or a slot given
-- at the door 2. What a tick leaves over the next one does, which comes at once.
local WORK = 1000

local call, try, find, match, sub, tonumber_, type_
qm.bind(function()
  call, try, find, match, sub = redis.call, redis.pcall, string.find, string.match, string.sub
  tonumber_, type_ = tonumber, type
end)

-- Header keys of rooms whose live state was compared with the journal since this Valkey process took the library in.
-- Kept outside the data on purpose: a restarted or failed-over Valkey begins with none, so state that may have been
-- rewound answers nobody before it was compared (ENG-276). Libraries share no variables, so the key `v` beside the
-- header tells those of other releases: it holds the name of the life in which the comparison was made.
local verified = {}

-- A primary that was demoted and promoted again keeps its Lua variables when it had to fetch only the end of what it
-- missed, and may have missed more since: the name of its stream tells. It is looked at this often (ms); being demoted
-- and promoted takes longer, and a replica runs no function that writes.
local LOOK_MS = 100
local looked_at, stream_then = 0, nil

-- Name of this Valkey's present life: another one after a restart, and after a replica was promoted. Nil where INFO is
-- closed to us: then each release compares for itself. Forgets all comparisons of the life before.
local function life()
  local info = try("INFO", "server", "replication")
  if type_(info) ~= "string" then return nil end
  local run, stream = match(info, "run_id:(%x+)"), match(info, "master_replid:(%x+)")
  -- A stream without a predecessor is no promotion: a primary renames it too when its last replica is long gone.
  local has_past = find(match(info, "master_replid2:(%x+)") or "", "[^0]")
  if stream_then and stream ~= stream_then and has_past then verified = {} end
  stream_then = stream
  return run and stream and run .. ":" .. stream
end

local function look(now)
  if now - looked_at > LOOK_MS or now < looked_at then
    looked_at = now
    life()
  end
end

-- Notes that the room behind `key` may answer, or no longer.
function qm.room_verify(key, is_verified)
  verified[key] = is_verified or nil
  local mark, now = sub(key, 1, -2) .. "v", is_verified and life()
  if now then
    call("SET", mark, now)
  else
    call("DEL", mark)
  end
end

-- True when the room behind `key` may answer. Asks the mark only as long as this library does not know the room.
function qm.is_verified(key)
  look(qm.time_ms())
  if verified[key] then return true end
  local mark = call("GET", sub(key, 1, -2) .. "v")
  if not mark or mark ~= life() then return false end
  verified[key] = true
  return true
end

-- R of the room behind header key `key` whatever its state, or nil and NOHEADER / FENCED (unknown layout).
function qm.room_raw(key)
  local data = call("GET", key)
  if not data then return nil, qm.CODE.NOHEADER end
  local h = qm.header_read(data)
  if not h or h.layout > qm.LAYOUT then return nil, qm.CODE.FENCED end
  qm.clock_advance(h)
  local p = key:sub(1, -2)
  return {
    key = key, p = p, g = p .. h.gen .. ":", h = h, ds = qm.clock_ds(h), absent_ds = h.presence * 10,
    facts = {}, seq_before = h.seq, work = WORK, books = {},
  }
end

-- R of a room that answers, or nil and a code. `gen`, `cfg_ver`: those of the caller's copy, 0 = any.
function qm.room_open(key, gen, cfg_ver)
  local R, code = qm.room_raw(key)
  if not R then return nil, code end
  local h = R.h
  look(h.last_time - h.offset)
  if h.fenced == 1 or not (verified[key] or qm.is_verified(key)) then return nil, qm.CODE.FENCED end
  if h.deleted == 1 then return nil, qm.CODE.NOROOM end
  gen, cfg_ver = tonumber_(gen), tonumber_(cfg_ver)
  if (gen ~= 0 and gen ~= h.gen) or (cfg_ver ~= 0 and cfg_ver ~= h.cfg_ver) then return nil, qm.CODE.STALE end
  return R
end

-- As room_open, for a function that writes: the counters stand at the current second.
function qm.room_enter(key, gen, cfg_ver)
  local R, code = qm.room_open(key, gen, cfg_ver)
  if R then
    R.second_before = R.h.second
    qm.counters_roll(R)
    R.depth_before, R.active_before = qm.depth(R), R.h.active
  end
  return R, code
end

-- Instance prefix and room id out of a header key.
function qm.key_parts(key)
  local _, _, prefix, room = find(key, "^(.*){([^{}]*)}:m$")
  return prefix, room
end

-- Effective state: scheduled from the schedule on until the draw is revealed, else the configured one (ENG-062).
function qm.state_of(h)
  return h.phase > 0 and qm.S.SCHEDULED or h.state
end

-- True when a slot is free.
function qm.slot_free(h)
  return h.max_concurrent == 0 or h.active + h.pending < h.max_concurrent
end

-- True when one credit may be spent now.
function qm.can_pay(h)
  return h.state == qm.S.ACTIVE and h.phase == 0 and h.rate > 0 and h.credit >= 1
end

-- Tickets in line without a pass.
function qm.waiting(h)
  return h.last_ticket - h.head - h.removed
end

-- Earns the credit for the time since the last tick of any instance (ENG-114, ENG-116, ENG-119). What one second earns
-- and one more is all that can ever be spent at once, so that no lateness makes a burst (ENG-117).
function qm.accrue(h)
  local elapsed = h.mono - h.last_tick
  h.last_tick = h.mono
  if elapsed <= 0 or h.state ~= qm.S.ACTIVE or h.phase ~= 0 then return end
  if elapsed > 1000 then elapsed = 1000 end
  local credit, most = h.credit + h.rate * elapsed / 60000, h.rate / 60 + 1
  h.credit = credit < most and credit or most
end
