-- How many wait before a ticket: n - head - removed ones between. The removed ones are bits in a bitmap; whole blocks
-- of it are counted once a call, so that a batch of 50 questions counts a line of a million once, not 50 times.

local BLOCK = 65536

local call, floor
qm.bind(function() call, floor = redis.call, math.floor end)

local function count(R, first, last)
  if last < first then return 0 end
  return call("BITCOUNT", R.g .. "r", first, last, "BIT")
end

-- How many wait from ticket `first`, which is beyond the head, to `last`.
function qm.waiting_between(R, first, last)
  return last < first and 0 or last - first + 1 - count(R, first, last)
end

-- What was counted in this call; whoever changes the line sets it to nil.
local function sums_of(R)
  local sums = R.sums
  if not sums then
    local first = floor((R.h.head + 1) / BLOCK)
    sums = { upto = first, [first] = 0 }
    R.sums = sums
  end
  return sums
end

-- How many numbers of the running draw wait as far as the line knows; `first` to `last` are those beyond the head.
function qm.drawn_waiting(R, first, last)
  local sums = sums_of(R)
  local waiting = sums.drawn
  if not waiting then
    waiting = qm.waiting_between(R, first, last)
    sums.drawn = waiting
  end
  return waiting
end

-- Removed tickets from head + 1 up to the end of block `b` - 1.
local function blocks_before(R, b)
  local sums, first = sums_of(R), floor((R.h.head + 1) / BLOCK)
  for block = sums.upto, b - 1 do
    local from = block == first and R.h.head + 1 or block * BLOCK
    sums[block + 1] = sums[block] + count(R, from, (block + 1) * BLOCK - 1)
    sums.upto = block + 1
  end
  return sums[b]
end

-- Waiting tickets before ticket n, which itself waits.
function qm.ahead(R, n)
  local h = R.h
  if h.removed == 0 then return n - h.head - 1 end
  local b = floor(n / BLOCK)
  local from = b * BLOCK
  if from <= h.head then from = h.head + 1 end
  return n - h.head - 1 - blocks_before(R, b) - count(R, from, n - 1)
end

-- Number of the `count`-th waiting ticket; count from 1 to the number of those who wait.
function qm.nth_waiting(R, count_)
  local h = R.h
  local low, high = h.head + count_, h.last_ticket
  if h.removed == 0 then return low end
  while low < high do
    local middle = floor((low + high) / 2)
    if middle - h.head - count(R, h.head + 1, middle) < count_ then low = middle + 1 else high = middle end
  end
  return low
end

-- Marks waiting ticket n as gone from the line.
function qm.line_remove(R, n)
  call("SETBIT", R.g .. "r", n, 1)
  R.h.removed = R.h.removed + 1
  R.sums = nil
end

-- Smallest waiting number, or nil when nobody waits.
function qm.first_waiting(R)
  local h = R.h
  if qm.waiting(h) == 0 then return nil end
  if h.removed == 0 then return h.head + 1 end
  local n = call("BITPOS", R.g .. "r", 0, h.head + 1, h.last_ticket, "BIT")
  if n >= 0 then return n end
  local beyond = call("STRLEN", R.g .. "r") * 8
  return beyond > h.head + 1 and beyond or h.head + 1
end
