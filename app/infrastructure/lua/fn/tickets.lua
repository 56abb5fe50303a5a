-- Purpose: What is known of tickets, for operators (ENG-238 … ENG-243). Nobody is seen or told by it (ENG-249).
-- Keys: header
-- Args: ticket numbers, and places in the pre-queue as p<place>; a drawn one stands for its ticket (ENG-245)
-- Returns: code, gen, W, wall ms of ds 0, last ticket, places, one string with 48 bytes an argument: state u8 (TicketState;
--   0 = never issued, or not told yet), flags u8, why u8, marks u8 (1 present, 2 bound to a cookie, 4 to a fingerprint, 8 has
--   a record, 16 a place), ticket, seen, ahead, passEnd, sessionEnd, admitted (u32; the times in ds), joinedAt, passedAt (u64,
--   wall ms; 0 = not known or none)
-- Errors: NOHEADER, NOROOM, FENCED
-- Facts: none
-- Cost: O(1) a number and O(line / 500,000) a call

local FORMAT = "<BBBBI4I4I4I4I4I4I8I8"
local NOTHING = "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"

local T, TICKET_BYTES = qm.T, qm.TICKET_BYTES

-- The records of n, ticket and door (the door as bytes or nil), as they are once a flush or purge is written.
local function read(R, n)
  local k, i = qm.place(n)
  local rec = redis.call("GETRANGE", R.g .. "t" .. k, i * TICKET_BYTES, i * TICKET_BYTES + TICKET_BYTES - 1)
  if #rec < TICKET_BYTES or rec:byte(1) == T.NONE then return nil end
  if rec:byte(1) ~= T.WAITING or n > R.h.head then return rec end
  local flushed, door = qm.flush_peek(R, n, rec)
  if flushed then return flushed, door end
  return qm.purged_record(rec)
end

local function never_issued(n)
  return struct.pack(FORMAT, T.NONE, 0, 0, 0, n, 0, 0, 0, 0, 0, 0, 0)
end

-- A number without a record: its times may have been kept (ring.lua).
local function without_record(R, n)
  if n < 1 or n > R.h.last_ticket then return never_issued(n) end
  local state, joined, passed = T.EXPIRED, 0, 0
  local kept = redis.call("HGET", R.g .. "lt", n)
  if kept then
    joined, passed = struct.unpack("<I6I6", kept)
  elseif qm.reason_missing(R, n) == qm.REASON.EJECTED then
    state = T.EJECTED
  end
  return struct.pack(FORMAT, state, 0, 0, 0, n, 0, 0, 0, 0, 0, joined, passed)
end

-- State as it is at this moment, whether or not a tick has seen the end.
local function state_of(R, rec, door)
  local state = rec:byte(1)
  if state == T.PASSED and qm.pass_is_over(R, rec, door) then return T.EXPIRED, qm.WHY.PASS_OVER end
  if state == T.ACTIVE and R.ds >= qm.session_end(R.h, door) then return T.EXPIRED, qm.WHY.SESSION_IDLE end
  return state, rec:byte(3)
end

local function marks_of(R, rec)
  local marks = 8 + (qm.is_absent(R, rec) and 0 or 1)
  if rec:sub(25, 40) ~= NOTHING then marks = marks + 2 end
  if rec:sub(41, 56) ~= NOTHING or rec:sub(57, 72) ~= NOTHING then marks = marks + 4 end
  return marks
end

local function describe(R, n)
  if qm.is_secret(R, n) then return never_issued(n) end
  local rec, bytes = read(R, n)
  if not rec then return without_record(R, n) end
  local door = bytes and qm.door_read(bytes) or qm.door_get(R, n)
  local state, why = state_of(R, rec, door)
  local gone = state == T.EJECTED
  return struct.pack(FORMAT, state, rec:byte(2), why, marks_of(R, rec), n, qm.seen_of(rec),
    state == T.WAITING and qm.ahead(R, n) or 0, door.pass_end, state == T.ACTIVE and qm.session_end(R.h, door) or 0,
    door.admitted,
    gone and 0 or qm.joined_of(rec), gone and 0 or door.passed_at)
end

local function describe_place(R, p)
  local n = p >= 1 and p <= R.h.places and qm.place_ticket(R, p)
  if n then return describe(R, n) end
  local rec = n == nil and qm.place_get(R, p)
  if not rec then return never_issued(0) end
  local state, why = qm.place_state(R, p, rec)
  local joined = state == T.EJECTED and 0 or qm.joined_of(rec)
  return struct.pack(FORMAT, state, 0, why, marks_of(R, rec) + 16, 0, qm.seen_of(rec), 0, 0, 0, 0, joined, 0)
end

qm.fn("tickets", { "no-writes" }, function(keys, args)
  local R, code = qm.room_open(keys[1], 0, 0)
  if not R then return { code } end
  local answers, h = {}, R.h
  for i = 1, #args do
    local n = tonumber(args[i])
    answers[i] = n and describe(R, n) or describe_place(R, tonumber(args[i]:sub(2)))
  end
  return { qm.CODE.OK, h.gen, h.wall, h.wall - h.mono, h.last_ticket, h.places, table.concat(answers) }
end)
