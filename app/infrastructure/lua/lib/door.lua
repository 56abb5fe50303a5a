-- Holders of a slot-less pass who stand at the door (ENG-131, ENG-132): sorted set `w` by ticket number. A ticket is
-- in it exactly while it is PASSED with AT_DOOR and without SLOT; a slot given at the door keeps AT_DOOR, so that one
-- left unused can be told from the first (flag WASTED).

-- Absent holders that one call takes away from the door.
local ABSENT_LIMIT = 500
local PAGE = 20

local call, byte, band, tonumber_
qm.bind(function() call, byte, band, tonumber_ = redis.call, string.byte, bit.band, tonumber end)

local FLAG, T = qm.FLAG, qm.T

-- Puts n at the end of those at the door by its number; its record is the caller's.
function qm.door_enter(R, n)
  call("ZADD", R.g .. "w", n, n)
  if R.oldest == false or (R.oldest and n < R.oldest) then R.oldest = nil end
end

-- Puts n (PASSED, without slot, `flags`) at the door; returns its new flags.
function qm.door_stand(R, n, flags, rec)
  if qm.at_bound(R, rec, 17) then
    qm.bound_stand(R, n, rec)
  else
    qm.door_enter(R, n)
    if R.h.session_ip_cap > 0 then qm.bound_leave(R, n, rec) end
  end
  if band(flags, FLAG.AT_DOOR) == 0 then
    flags = flags + FLAG.AT_DOOR
    qm.ticket_put(R, n, 1, qm.byte_of(flags))
  end
  return flags
end

-- Takes n away from the door; its record is the caller's.
function qm.door_leave(R, n, rec)
  call("ZREM", R.g .. "w", n)
  if R.h.session_ip_cap > 0 then qm.bound_leave(R, n, rec) end
  if R.oldest == n then R.oldest = nil end
end

local function stands(rec)
  local state, flags = byte(rec, 1, 2)
  return state == T.PASSED and band(flags, FLAG.AT_DOOR) > 0 and band(flags, FLAG.SLOT) == 0
end

local function drop_absent(R, n, rec)
  call("ZREM", R.g .. "w", n)
  if rec and stands(rec) then qm.ticket_put(R, n, 1, qm.byte_of(byte(rec, 2) - FLAG.AT_DOOR)) end
end

-- Lets n, who was held back because of his address, stand in order again; false when he is not there any more.
function qm.door_return(R, n)
  local rec = qm.ticket_get(R, n)
  if rec and stands(rec) and not qm.is_absent(R, rec) then
    qm.door_enter(R, n)
    return true
  end
  drop_absent(R, n, rec)
  return false
end

-- Calls visit(n, rec) for present holders at the door, oldest first, until it returns true. Absent ones are taken
-- away, and those whose address is at its bound put aside. Returns false when the limit was reached before the end.
function qm.door_walk(R, visit)
  if R.h.passes_out == 0 then return true end
  local kept, dropped = 0, 0
  while dropped < ABSENT_LIMIT do
    local page = call("ZRANGE", R.g .. "w", kept, kept + PAGE - 1)
    if #page == 0 then return true end
    for i = 1, #page do
      local n = tonumber_(page[i])
      local rec = qm.ticket_get(R, n)
      if rec and stands(rec) and qm.at_bound(R, rec, 17) then
        qm.bound_stand(R, n, rec)
        dropped = dropped + 1
      elseif rec and stands(rec) and not qm.is_absent(R, rec) then
        local stop, moved = visit(n, rec)
        if stop then return true end
        if not moved then kept = kept + 1 end
      else
        drop_absent(R, n, rec)
        dropped = dropped + 1
      end
    end
  end
  return false
end

-- Smallest number of a present holder at the door, or false. Found once a call.
function qm.door_oldest(R)
  if R.oldest == nil then
    local oldest = false
    qm.door_walk(R, function(n)
      oldest = n
      return true
    end)
    R.oldest = oldest
  end
  return R.oldest
end

-- True when n may walk in on its slot-less pass: a slot is free, its address may have one, no older holder stands before
-- it, and a pass that was given without credit can pay (ENG-132, ENG-133, ENG-296).
function qm.door_free_for(R, n, flags, rec)
  if not qm.slot_free(R.h) or qm.at_bound(R, rec, 17) or qm.door_unwritten(R.h) then return false end
  if band(flags, FLAG.PAID) == 0 and not qm.can_pay(R.h) then return false end
  local oldest = qm.door_oldest(R)
  return not oldest or oldest >= n
end

-- Older holders at the door before n, who stands there.
function qm.door_ahead(R, n)
  return call("ZCOUNT", R.g .. "w", "-inf", "(" .. n)
end

local function give_slot(R, n, rec, claim_end)
  local h, flags = R.h, byte(rec, 2)
  if band(flags, FLAG.PAID) == 0 then
    h.credit = h.credit - 1
    flags = flags + FLAG.PAID
  end
  if band(flags, FLAG.TOLD) > 0 then flags = flags - FLAG.TOLD end
  qm.ticket_put(R, n, 1, qm.byte_of(flags + FLAG.SLOT))
  local door = qm.door_get(R, n)
  door.claim_end = claim_end
  qm.door_put(R, n, door)
  qm.deadline_set(R, n, qm.pass_due(R, flags + FLAG.SLOT, qm.seen_of(rec), door))
  call("ZREM", R.g .. "w", n)
  h.pending, h.passes_out = h.pending + 1, h.passes_out - 1
  qm.slot_change(R, rec, 17, 1)
end

-- Gives free slots to those at the door, oldest first (ENG-122). While the room is paused or scheduled only passes that
-- are paid are served, and the others hold nobody up (ENG-060, ENG-063). Returns false when the work limit was reached.
function qm.door_serve(R)
  local h, given, short, count = R.h, {}, {}, 0
  local claim_end, short_end = R.ds + qm.claim_ds(h), qm.short_claim_end(R)
  local all = true
  local state = qm.state_of(h)
  if state ~= qm.S.BYPASS then
    all = qm.door_walk(R, function(n, rec)
      if not qm.slot_free(h) or count >= ABSENT_LIMIT then return true end
      if band(byte(rec, 2), FLAG.PAID) == 0 and not qm.can_pay(h) then return state == qm.S.ACTIVE end
      local is_short = qm.claims_shortly(R, rec, 17)
      local list = is_short and short or given
      give_slot(R, n, rec, is_short and short_end or claim_end)
      list[#list + 1], count = n, count + 1
      return false, true
    end)
  end
  R.oldest, R.work = nil, R.work - 2 * count
  qm.fact_tickets(R, qm.FACT.SLOT_GIVEN, qm.wall_bytes(R, claim_end), given)
  qm.fact_tickets(R, qm.FACT.SLOT_GIVEN, qm.wall_bytes(R, short_end), short)
  return all and count < ABSENT_LIMIT
end
