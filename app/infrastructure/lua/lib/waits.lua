-- Finished waits of the running hour (ENG-230 … ENG-232): number, sum and maximum of all, and 256 of them chosen
-- uniformly at random. A call gathers waits in R.waits; they are added when the room is closed.
--
-- The choice is Vitter's and Li's algorithm L: it draws how many waits to pass over until the next one is taken, so that
-- most cost one comparison. What is drawn decides nothing but which waits are shown, so a small generator will do.

local KEPT = 256
local SEED_MAX = 2147483647

local call, pack, floor, log, exp, concat
qm.bind(function()
  call, pack, floor, log, exp, concat = redis.call, struct.pack, math.floor, math.log, math.exp, table.concat
end)

-- A number between 0 and 1, neither included.
local function draw(c)
  c.seed = (c.seed * 16807) % SEED_MAX
  return c.seed / SEED_MAX
end

local function draw_next(c)
  c.weight = c.weight * exp(log(draw(c)) / KEPT)
  c.next = c.waits + floor(log(draw(c)) / log(1 - c.weight)) + 1
end

-- List for the waits (ms) of this call.
function qm.waits_of(R)
  if not R.waits then R.waits = {} end
  return R.waits
end

-- Adds the gathered waits to the running hour.
function qm.waits_save(R)
  local waits = R.waits
  if not waits or #waits == 0 then return end
  local c = qm.hour_open(R)
  local key, at = R.g .. "s", R.h.wall - c.hour * 3600000
  local before, first = c.waits, {}
  for i = 1, #waits do
    local wait = waits[i]
    if wait < 0 then wait = 0 end
    if wait > 4294967295 then wait = 4294967295 end
    c.waits, c.wait_sum = c.waits + 1, c.wait_sum + wait
    if wait > c.wait_max then c.wait_max = wait end
    if c.waits <= KEPT then
      first[#first + 1] = pack("<I4I4", wait, at)
      if c.waits == KEPT then
        c.weight = 1
        for _ = 1, 8 do draw(c) end
        draw_next(c)
      end
    elseif c.waits == c.next then
      local place = floor(draw(c) * KEPT)
      -- Those of this very call that are still to be written come first.
      if place >= before and place < before + #first then
        first[place - before + 1] = pack("<I4I4", wait, at)
      else
        call("SETRANGE", key, qm.HOUR_BYTES + place * qm.HOUR_SAMPLE_BYTES, pack("<I4I4", wait, at))
      end
      draw_next(c)
    end
  end
  if #first > 0 then call("SETRANGE", key, qm.HOUR_BYTES + before * qm.HOUR_SAMPLE_BYTES, concat(first)) end
  R.waits = nil
end
