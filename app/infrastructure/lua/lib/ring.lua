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

local function forget_times(R, n)
  local k, i = qm.place(n)
  local key = R.g .. "t" .. k
  local state = call("GETRANGE", key, i * TICKET_BYTES, i * TICKET_BYTES)
  if state == "" then return call("HDEL", R.g .. "lt", n) end
  if qm.is_live(byte(state)) then return end
  call("SETRANGE", key, i * TICKET_BYTES + 8, NOTHING)
  if n <= R.h.head then call("SETRANGE", R.g .. "d" .. k, i * DOOR_BYTES, NOTHING) end
end

local function write_run(R, place, numbers)
  local key, from = R.g .. "lp", place * 4
  local old = call("GETRANGE", key, from, from + #numbers * 4 - 1)
  for at = 1, #old - 3, 4 do forget_times(R, (unpack_("<I4", old, at))) end
  for i = 1, #numbers do numbers[i] = pack("<I4", numbers[i]) end
  call("SETRANGE", key, from, concat(numbers))
end

-- Writes the numbers that were noted.
function qm.ring_save(R)
  local h, ended, from = R.h, R.ring, 1
  if not ended then return end
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
