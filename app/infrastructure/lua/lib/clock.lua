-- The room's two clocks. M (`mono`, ms) moves pace, presence and deadlines; W (`wall`, ms) is recorded. Neither goes
-- back, and a step of the host's clock moves M by at most 5 s (ENG-012, ENG-013): everybody would be absent and every
-- session over otherwise. After a step W and M are further apart than before: lib/facts.lua records it.

local STEP_LIMIT = 5000
qm.STEP_LIMIT = STEP_LIMIT

local call, floor, min, max
qm.bind(function() call, floor, min, max = redis.call, math.floor, math.min, math.max end)

-- Valkey's TIME in ms.
function qm.time_ms()
  local t = call("TIME")
  return t[1] * 1000 + floor(t[2] / 1000)
end

-- Moves both clocks of header `h` to now.
function qm.clock_advance(h)
  local now = qm.time_ms() + h.offset
  h.mono = h.mono + max(0, min(now - h.last_time, STEP_LIMIT))
  h.last_time = now
  h.wall = max(h.wall, now)
end

-- M in deciseconds.
function qm.clock_ds(h)
  return floor(h.mono / 100)
end

-- Wall ms of the moment `ds` by the room's clock.
function qm.wall_of(h, ds)
  return h.wall - h.mono + ds * 100
end
