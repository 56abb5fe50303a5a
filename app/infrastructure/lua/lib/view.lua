-- What a visitor may know of a ticket (VisitorView of engine_results.py), 40 bytes: state u8, reason u8, marks u8
-- (1 by purge, 2 owner by cookie), pad, ticket, ahead, passEnd, claimEnd, sessionEnd (u32; ends in ds), joinedAt,
-- passedAt (u64, wall ms). engine_pack.py unpacks it. Of a place in the pre-queue (SCHEDULED, ticket 0) the four fields
-- behind the ticket are the 16 bytes of its handle (lib/prequeue.lua).

local FORMAT = "<BBBxI4I4I4I4I4I8I8"
qm.VIEW_FORMAT = FORMAT

local byte, sub, band, pack
qm.bind(function() byte, sub, band, pack = string.byte, string.sub, bit.band, struct.pack end)

local T, S, V, REASON, FLAG = qm.T, qm.S, qm.VIEW, qm.REASON, qm.FLAG

-- View that names no ticket.
function qm.view_gone(reason)
  return pack(FORMAT, V.GONE, reason, 0, 0, 0, 0, 0, 0, 0, 0), V.GONE
end

-- View of number n of this generation that has no record (any more).
function qm.view_missing(R, n)
  local reason = qm.reason_missing(R, n)
  return pack(FORMAT, V.GONE, reason, reason == REASON.EJECTED and 1 or 0, 0, 0, 0, 0, 0, 0, 0), V.GONE
end

-- View of a bypassed room.
function qm.view_bypass()
  return pack(FORMAT, V.BYPASS, 0, 0, 0, 0, 0, 0, 0, 0, 0), V.BYPASS
end

-- True when an unused pass is over, whether or not a tick has seen it (ENG-130, ENG-131).
function qm.pass_is_over(R, rec, door)
  if R.ds < door.pass_end then return false end
  local flags = byte(rec, 2)
  if band(flags, FLAG.SLOT) > 0 then return R.ds >= door.claim_end end
  return band(flags, FLAG.AT_DOOR) == 0 or band(flags, FLAG.WASTED) > 0 or qm.is_absent(R, rec)
end

-- View state and reason of a waiting ticket.
function qm.in_line(h)
  if h.phase > 0 then return V.SCHEDULED, REASON.SCHEDULED end
  if h.state == S.PAUSED then return V.PAUSED, REASON.PAUSED end
  return V.WAITING, REASON.WAITING
end

local function view_waiting(R, n, rec, marks)
  local state, reason = qm.in_line(R.h)
  return pack(FORMAT, state, reason, marks, n, qm.ahead_told(R, n), 0, 0, 0, qm.joined_of(rec), 0), state
end

-- A slot-less pass that nothing keeps out is PASSED too; otherwise its holder, if he asks himself (`seen`), stands at the
-- door from now on.
local function view_pass(R, n, rec, marks, told, seen)
  if marks < 2 and qm.is_reclaimed(rec) then return qm.view_gone(REASON.SESSION_ELSEWHERE) end
  local door, flags = qm.door_get(R, n), byte(rec, 2)
  if qm.pass_is_over(R, rec, door) then return qm.view_gone(REASON.EXPIRED) end
  local has_slot = band(flags, FLAG.SLOT) > 0
  if not has_slot and not qm.door_free_for(R, n, flags, rec) then
    if seen then qm.door_stand(R, n, flags, rec) end
    return pack(FORMAT, V.AT_CAPACITY, REASON.AT_CAPACITY, marks, n, qm.door_ahead(R, n), door.pass_end, 0, 0,
      qm.joined_of(rec), door.passed_at), V.AT_CAPACITY
  end
  if told and band(flags, FLAG.TOLD) == 0 then qm.ticket_put(R, n, 1, qm.byte_of(flags + FLAG.TOLD)) end
  return pack(FORMAT, V.PASSED, 0, marks, n, 0, door.pass_end, has_slot and door.claim_end or 0, 0,
    qm.joined_of(rec), door.passed_at), V.PASSED
end

-- Told only to the owner by cookie and to the holder of the door key (VIS-187).
local function view_session(R, n, rec, marks, holds_key)
  local door = qm.door_get(R, n)
  local ends = qm.session_end(R.h, door)
  if R.ds >= ends then return qm.view_gone(REASON.EXPIRED) end
  if marks < 2 and not holds_key then return qm.view_gone(REASON.SESSION_ELSEWHERE) end
  return pack(FORMAT, V.ACTIVE, 0, marks, n, 0, 0, 0, ends, qm.joined_of(rec), door.passed_at), V.ACTIVE
end

-- View of ticket n for its owner. `proof`: answer of qm.prove; `holds_key`: the request has the session's door key;
-- `told`: the answer delivers a pass; `seen`: the holder is here. Returns the 40 bytes and the view state. May put a
-- holder who is here at the door; without `told` and `seen` it changes nothing (VIS-039).
function qm.view(R, n, rec, proof, holds_key, told, seen)
  local state = byte(rec, 1)
  local marks = proof == 2 and 2 or 0
  if state == T.WAITING then return view_waiting(R, n, rec, marks) end
  if state == T.PASSED then return view_pass(R, n, rec, marks, told, seen) end
  if state == T.ACTIVE then return view_session(R, n, rec, marks, holds_key) end
  if state ~= T.EJECTED then return qm.view_gone(REASON.EXPIRED) end
  local by_purge = byte(rec, 3) == qm.WHY.PURGE and 1 or 0
  return pack(FORMAT, V.GONE, REASON.EJECTED, by_purge, 0, 0, 0, 0, 0, 0, 0), V.GONE
end

-- View of a new waiting ticket, whose record is not stored yet.
function qm.view_new(R, n)
  local state, reason = qm.in_line(R.h)
  local ahead = state == V.SCHEDULED and qm.ahead_told(R, n) or qm.waiting(R.h) - 1
  return pack(FORMAT, state, reason, 2, n, ahead, 0, 0, 0, R.h.wall, 0)
end

-- View of a new ticket that was promoted in the step of its join.
function qm.view_new_pass(R, n, door)
  return pack(FORMAT, V.PASSED, 0, 2, n, 0, door.pass_end, door.claim_end, 0, R.h.wall, door.passed_at)
end

-- Notes that the holder was seen, unless that was noted within the last second (ENG-137). Who was absent stands at the
-- door no more, whether or not anybody has looked at him there meanwhile. Returns the record with its flags as they are.
function qm.mark_seen(R, n, rec)
  if R.ds - qm.seen_of(rec) < 10 then return rec end
  qm.ticket_put(R, n, 4, pack("<I4", R.ds))
  local flags = byte(rec, 2)
  if band(flags, FLAG.AT_DOOR + FLAG.SLOT) ~= FLAG.AT_DOOR or not qm.is_absent(R, rec) then return rec end
  qm.door_leave(R, n, rec)
  local gone = qm.byte_of(flags - FLAG.AT_DOOR)
  qm.ticket_put(R, n, 1, gone)
  return sub(rec, 1, 1) .. gone .. sub(rec, 3)
end

-- Head of a visitor answer: code, W, wall ms of ds 0, effective state, release rate, floor mark, generation, epoch.
function qm.answer_head(R)
  local h = R.h
  local rate, is_floor = qm.release_rate(h)
  return { qm.CODE.OK, h.wall, h.wall - h.mono, qm.state_of(h), rate, is_floor, h.gen, h.epoch }
end

-- Tail of a visitor answer behind its items, only while the room is scheduled: opensAt (wall ms), places in the pre-queue.
function qm.answer_tail(R, answer)
  if R.h.phase == 0 then return end
  answer[#answer + 1] = R.h.opens_at
  answer[#answer + 1] = qm.pre(R).live
end
