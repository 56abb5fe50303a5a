-- Ticket and door records: app/domain/layout.py says what their bytes are. A record is kept as the string it is;
-- callers take out what they need, since most calls need little of it.

local call, byte, sub, char, pack, unpack_, floor
qm.bind(function()
  call, byte, sub, char = redis.call, string.byte, string.sub, string.char
  pack, unpack_, floor = struct.pack, struct.unpack, math.floor
end)

local CHUNK, TICKET_BYTES, DOOR_BYTES = qm.CHUNK, qm.TICKET_BYTES, qm.DOOR_BYTES
local WAITING = qm.T.WAITING
local DOOR_FORMAT = "<I6BBI4I4I4I4I4I4"
qm.DOOR_FORMAT = DOOR_FORMAT
qm.NO_DOOR_KEY = "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"

-- Chunk and index in it of ticket n.
function qm.place(n)
  local k = floor((n - 1) / CHUNK)
  return k, n - 1 - k * CHUNK
end

-- Ticket record of n (72 bytes), or nil when there is none. May write: a ticket that a flush promoted is written when it
-- is asked about (flush.lua).
function qm.ticket_get(R, n)
  local k, i = qm.place(n)
  local rec = call("GETRANGE", R.g .. "t" .. k, i * TICKET_BYTES, i * TICKET_BYTES + TICKET_BYTES - 1)
  local state = byte(rec, 1)
  if #rec ~= TICKET_BYTES or state == 0 then return nil end
  if state == WAITING and n <= R.h.head then return qm.ticket_settle(R, n, rec) end
  return rec
end

-- Overwrites the bytes of n's ticket record from offset `at` on.
function qm.ticket_put(R, n, at, bytes)
  local k, i = qm.place(n)
  call("SETRANGE", R.g .. "t" .. k, i * TICKET_BYTES + at, bytes)
end

-- Sets state, flags and why of n.
function qm.ticket_set(R, n, state, flags, why)
  qm.ticket_put(R, n, 0, char(state, flags, why))
end

-- Last time (ds) the holder was seen.
function qm.seen_of(rec)
  return unpack_("<I4", rec, 5)
end

-- joinedAt (wall ms).
function qm.joined_of(rec)
  return unpack_("<I6", rec, 9)
end

-- True when the holder was last seen longer ago than presenceSec (ENG-138).
function qm.is_absent(R, rec)
  return R.ds - unpack_("<I4", rec, 5) > R.absent_ds
end

-- Door record `rec` as a table; all zero when it is shorter.
function qm.door_read(rec)
  if #rec < DOOR_BYTES then
    return {
      passed_at = 0, before = 0, roams = 0, pass_end = 0, claim_end = 0, used = 0, first = 0, admitted = 0, seq = 0,
      key = qm.NO_DOOR_KEY,
    }
  end
  local passed_at, before, roams, pass_end, claim_end, used, first, admitted, seq = unpack_(DOOR_FORMAT, rec)
  return {
    passed_at = passed_at, before = before, roams = roams, pass_end = pass_end, claim_end = claim_end, used = used,
    first = first,    admitted = admitted, seq = seq, key = sub(rec, 33, 48),
  }
end

-- Door record of n as a table; all zero when it has none.
function qm.door_get(R, n)
  local k, i = qm.place(n)
  return qm.door_read(call("GETRANGE", R.g .. "d" .. k, i * DOOR_BYTES, i * DOOR_BYTES + DOOR_BYTES - 1))
end

-- Bytes of a door record.
function qm.door_bytes(d)
  return pack(DOOR_FORMAT, d.passed_at, d.before, d.roams, d.pass_end, d.claim_end, d.used, d.first, d.admitted, d.seq)
    .. d.key
end

-- Door record of a pass that nobody has used.
function qm.pass_bytes(passed_at, pass_end, claim_end)
  return pack(DOOR_FORMAT, passed_at, 0, 0, pass_end, claim_end, 0, 0, 0, 0) .. qm.NO_DOOR_KEY
end

-- Writes the whole door record of n.
function qm.door_put(R, n, d)
  local k, i = qm.place(n)
  call("SETRANGE", R.g .. "d" .. k, i * DOOR_BYTES, qm.door_bytes(d))
end

-- Writes a passing check into n's door record: usedAt alone, four bytes.
function qm.door_touch(R, n)
  local k, i = qm.place(n)
  call("SETRANGE", R.g .. "d" .. k, i * DOOR_BYTES + 16, pack("<I4", R.ds))
end

-- Writes whether n's session has an entry of its addresses (sharing.lua).
function qm.door_roams(R, n, roams)
  local k, i = qm.place(n)
  call("SETRANGE", R.g .. "d" .. k, i * DOOR_BYTES + 7, char(roams))
end

-- Makes a chunk of `size` bytes at once: growing it record by record would leave twice the memory behind.
local function allocate(key, size)
  if call("EXISTS", key) == 0 then call("SETRANGE", key, size - 1, "\0") end
end

-- Makes room for ticket record n when it is the first of its chunk, or `anyway`.
function qm.ticket_room(R, n, anyway)
  local k, i = qm.place(n)
  if i == 0 or anyway then allocate(R.g .. "t" .. k, CHUNK * TICKET_BYTES) end
end

-- Makes room for the record of place p when it is the first of its chunk.
function qm.place_room(R, p)
  local k, i = qm.place(p)
  if i == 0 then allocate(R.g .. "h" .. k, CHUNK * qm.PLACE_BYTES) end
end

-- Makes room for door records in the chunk of n.
function qm.door_room(R, n)
  allocate(R.g .. "d" .. qm.place(n), CHUNK * DOOR_BYTES)
end

-- Moves the head to n and makes room for door records where it enters a chunk.
function qm.head_to(R, n)
  local k = qm.place(n)
  if R.h.head == 0 or qm.place(R.h.head) ~= k then qm.door_room(R, n) end
  R.h.head = n
end
