-- The last 50,000 tickets that are over keep their times (ENG-243): ring `lp` holds their numbers, the oldest is
-- overwritten and its times are zeroed. Those whose record is dropped earlier (forget.lua) keep their times in hash `lt`:
-- number -> joinedAt, passedAt (u48 each).

local PLACES = 50000
qm.RING_PLACES = PLACES

local call, byte, sub, pack, unpack_, concat, unpack_table
qm.bind(function()
  call, byte, sub, pack, unpack_ = redis.call, string.byte, string.sub, struct.pack, struct.unpack
  concat, unpack_table = table.concat, unpack
end)

local T, CHUNK, TICKET_BYTES, DOOR_BYTES = qm.T, qm.CHUNK, qm.TICKET_BYTES, qm.DOOR_BYTES
local NOTHING = "\0\0\0\0\0\0"

-- Notes that ticket n is over; the ring is written when the room is closed.
function qm.ring_note(R, n)
  if not R.ring then R.ring = {} end
  R.ring[#R.ring + 1] = n
end

-- Zeroes the times of `count` neighbours from n on, which are in one chunk; one that lives again keeps them.
local function forget_times(R, n, count)
  local k, i = qm.place(n)
  local key, from = R.g .. "t" .. k, i * TICKET_BYTES
  local block, parts = call("GETRANGE", key, from, from + count * TICKET_BYTES - 1), {}
  if block == "" then
    for j = 0, count - 1 do call("HDEL", R.g .. "lt", n + j) end
    return
  end
  for at = 1, #block, TICKET_BYTES do
    if qm.is_live(byte(block, at)) then
      parts[#parts + 1] = sub(block, at, at + TICKET_BYTES - 1)
    else
      parts[#parts + 1] = sub(block, at, at + 7)
      parts[#parts + 1] = NOTHING
      parts[#parts + 1] = sub(block, at + 14, at + TICKET_BYTES - 1)
    end
  end
  call("SETRANGE", key, from, concat(parts))
  for j = 0, count - 1 do
    local is_over = not qm.is_live(byte(block, j * TICKET_BYTES + 1))
    if is_over and n + j <= R.h.head then call("SETRANGE", R.g .. "d" .. k, (i + j) * DOOR_BYTES, NOTHING) end
  end
end

-- Zeroes the times of the tickets whose numbers are in `old` (u32 each).
local function forget_all(R, old)
  local first, count
  for at = 1, #old - 3, 4 do
    local n = unpack_("<I4", old, at)
    if first and n == first + count and qm.place(n) == qm.place(first) then
      count = count + 1
    else
      if first then forget_times(R, first, count) end
      first, count = n, 1
    end
  end
  if first then forget_times(R, first, count) end
end

local function write_run(R, place, numbers)
  local key, from = R.g .. "lp", place * 4
  forget_all(R, call("GETRANGE", key, from, from + #numbers * 4 - 1))
  for i = 1, #numbers do numbers[i] = pack("<I4", numbers[i]) end
  call("SETRANGE", key, from, concat(numbers))
end

-- Writes the numbers that were noted.
function qm.ring_save(R)
  local h, ended, from = R.h, R.ring, 1
  if not ended then return end
  table.sort(ended) -- so that neighbours go together, now and when they are overwritten
  while from <= #ended do
    local place, run = h.ended % PLACES, {}
    while from <= #ended and place + #run < PLACES do
      run[#run + 1] = ended[from]
      from = from + 1
    end
    h.ended = h.ended + #run
    write_run(R, place, run)
  end
  R.ring = nil
end

-- Keeps the times of chunk k, whose records `data` are about to be dropped.
function qm.ring_keep(R, k, data)
  local doors, kept = call("GET", R.g .. "d" .. k) or "", {}
  for at = 1, #data, TICKET_BYTES do
    local joined = sub(data, at + 8, at + 13)
    if byte(data, at) == T.EXPIRED and joined ~= NOTHING then
      local i = (at - 1) / TICKET_BYTES
      local passed = sub(doors, i * DOOR_BYTES + 1, i * DOOR_BYTES + 6)
      kept[#kept + 1] = k * CHUNK + i + 1
      kept[#kept + 1] = joined .. (#passed == 6 and passed or NOTHING)
    end
  end
  if #kept > 0 then call("HSET", R.g .. "lt", unpack_table(kept)) end
end
