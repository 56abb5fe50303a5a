-- Purpose: Decides each page request at the door, admits and slides sessions (ENG-144 … ENG-155).
-- Keys: header
-- Args: gen · cfg_ver (0 = any) · then items: head and strict 16 (lib/owner.lua), via u8, new door-key digest 16,
--   address 8, client 8 (the digest of address and agent), the tail at byte 62
-- Returns: code, W, wall ms of ds 0, state, release rate, floor mark, gen, epoch, one string with 16 bytes an item: verdict u8,
--   reason u8, shared u8 (1 = refused by ENG-298), pad, ticket u32, seq u32 (0 = nothing to wait for), end of the session u32 (ds)
-- Errors: NOHEADER, NOROOM, STALE, FENCED
-- Facts: admitted, owner_rebound
-- Cost: O(1) an item

local TAIL = 62
local GRACE_DS = 100
local VOUCHED = 2 -- Via of engine_results.py

local byte, band, sub, pack, concat
qm.bind(function() byte, band, sub, pack, concat = string.byte, bit.band, string.sub, struct.pack, table.concat end)

local T, P, REASON, FLAG, ASK, VERDICT = qm.T, qm.PRESENTED, qm.REASON, qm.FLAG, qm.ASK, qm.VERDICT

local function answer(verdict, reason, n, seq, ends)
  return pack("<BBxxI4I4I4", verdict, reason, n or 0, seq or 0, ends or 0)
end

local SHARED = "\0\9\1\0\0\0\0\0\0\0\0\0\0\0\0\0" -- queue, session_elsewhere, shared

-- Address of the visitor, or nil while visitors cannot be told apart.
local function address_of(item)
  return band(byte(item, 2), ASK.ALIKE) == 0 and sub(item, 46, 53) or nil
end

local function queue(reason)
  return answer(VERDICT.QUEUE, reason)
end

-- Why a place of the pre-queue that has no ticket to tell queues. Before the opening nobody is asked whose it is.
local function place_reason(R, p, rec, proof)
  local state = qm.place_state(R, p, rec)
  if state == T.WAITING then return REASON.SCHEDULED end
  if proof == 0 then return REASON.BAD_TOKEN end
  return state == T.EJECTED and REASON.EJECTED or REASON.EXPIRED
end

-- The ticket that an item's token names: n, record, proof. Or nil and the reason.
local function find(R, item)
  local presented, gen, n = qm.item_token(item)
  if presented == P.NONE then return nil, REASON.NEW end
  if presented == P.REFUSED then return nil, REASON.BAD_TOKEN end
  if gen ~= R.h.gen then return nil, REASON.STALE_GENERATION end
  if presented == P.HANDLE then
    local p, place
    n, p, place = qm.handle_find(R, item, TAIL)
    if p then
      local proof = qm.prove(item, TAIL, place)
      if proof == 2 then qm.bind_place(R, p, place, item, TAIL) end
      return nil, place_reason(R, p, place, proof)
    end
    if not n then return nil, REASON.EXPIRED end
  end
  local rec = n >= 1 and n <= R.h.last_ticket and qm.ticket_get(R, n)
  if not rec then return nil, qm.reason_missing(R, n) end
  local proof = qm.prove(item, TAIL, rec)
  if byte(item, 29) == VOUCHED then
    if proof == 0 and qm.from_of(R, n, rec) == sub(item, TAIL, TAIL + 15) then proof = 1 end
  elseif proof == 2 and qm.is_live(byte(rec, 1)) then
    rec = qm.bind_owner(R, n, rec, 2, item, TAIL, "")
  end
  return n, rec, proof
end

-- An answer that rests on an admission which is not committed yet waits for it like the admission itself.
local function session(R, n, door, verdict)
  if door.used ~= R.ds then qm.door_touch(R, n) end
  door.used = R.ds
  return answer(verdict, 0, n, door.seq > R.h.committed and door.seq or 0, qm.session_end(R.h, door))
end

local function check_session(R, n, rec, item, proof, verdict)
  local door = qm.door_get(R, n)
  local over = R.ds >= qm.session_end(R.h, door)
  local holds = qm.has_door_key(item, TAIL, door.key)
  if not over and holds then
    if not qm.session_shared(R, n, rec, door, address_of(item)) then return SHARED end
    return session(R, n, door, verdict)
  end
  if proof == 0 then return queue(REASON.BAD_TOKEN) end
  if over then return queue(REASON.EXPIRED) end
  local parallel = proof == 2 and not qm.has_any_door_key(item) and R.ds - door.admitted <= GRACE_DS
  if parallel then return session(R, n, door, verdict) end
  return queue(REASON.SESSION_ELSEWHERE)
end

local function check_pass(R, n, rec, item, proof)
  local door, flags = qm.door_get(R, n), byte(rec, 2)
  -- The browser whose use a reclaim has ended; its owner is the cookie's, or comes without the void key.
  if proof < 2 and qm.is_reclaimed(rec) and qm.has_door_key(item, TAIL, door.key) then
    return queue(REASON.SESSION_ELSEWHERE)
  end
  if qm.pass_is_over(R, rec, door) then return queue(REASON.EXPIRED) end
  if band(flags, FLAG.SLOT) == 0 and not qm.door_free_for(R, n, flags, rec) then
    qm.door_stand(R, n, flags, rec)
    return queue(REASON.AT_CAPACITY)
  end
  local seq = qm.admit(R, n, rec, door, sub(item, 30, 45), byte(item, 29), address_of(item))
  return answer(VERDICT.ADMITTED, 0, n, seq, qm.session_end(R.h, door))
end

-- A page that needs no ticket; a running session of the request slides all the same (ENG-150). The second result tells
-- whether there is one.
local function check_open(R, item, verdict)
  local n, rec, proof = find(R, item)
  if n and byte(rec, 1) == T.ACTIVE then
    local door = qm.door_get(R, n)
    local mine = proof > 0
      or qm.has_door_key(item, TAIL, door.key) and qm.session_shared(R, n, rec, door, address_of(item))
    if mine and R.ds < qm.session_end(R.h, door) then return session(R, n, door, verdict), true end
  end
  return answer(verdict, 0), false
end

-- A page while the queue is off: it counts as an arrival unless its visitor is inside already (ENG-217).
local function check_bypass(R, item)
  local reply, is_inside = check_open(R, item, VERDICT.BYPASS)
  if not is_inside then qm.arrive(R, sub(item, 46, 53), sub(item, 54, 61)) end
  return reply
end

local function check(R, item)
  if band(byte(item, 2), ASK.COVERED) == 0 then return (check_open(R, item, VERDICT.NOT_TARGETED)) end
  if qm.state_of(R.h) == qm.S.BYPASS then return check_bypass(R, item) end
  local n, rec, proof = find(R, item)
  if not n then return queue(rec) end
  local state = byte(rec, 1)
  if state == T.ACTIVE then return check_session(R, n, rec, item, proof, VERDICT.SESSION) end
  if proof == 0 then return queue(REASON.BAD_TOKEN) end
  if state == T.PASSED then return check_pass(R, n, rec, item, proof) end
  if state == T.WAITING then
    local _, reason = qm.in_line(R.h)
    return queue(reason)
  end
  return queue(state == T.EJECTED and REASON.EJECTED or REASON.EXPIRED)
end

qm.fn("check", { "allow-oom" }, function(keys, args)
  local R, code = qm.room_enter(keys[1], args[1], args[2])
  if not R then return { code } end
  local answers = {}
  for i = 3, #args do answers[i - 2] = check(R, args[i]) end
  if R.arrivals then qm.arrivals_count(R) end
  local reply = qm.answer_head(R)
  qm.room_close(R)
  reply[#reply + 1] = concat(answers)
  return reply
end)
