-- The door: a pass becomes a session (ENG-145), and back when the commit failed (ENG-146) or when its owner takes it
-- from another browser that uses it (ENG-156).

local byte, sub, char, band, bor, pack
qm.bind(function()
  byte, sub, char, band, bor, pack = string.byte, string.sub, string.char, bit.band, bit.bor, struct.pack
end)

local FLAG, T = qm.FLAG, qm.T
local KEPT = FLAG.SLOT + FLAG.PAID + FLAG.AT_DOOR + FLAG.ADMITTED_ONCE
local OWN = FLAG.FROM_PRE_QUEUE + FLAG.ADMITTED_ONCE + FLAG.HAS_FROM
local IN_SESSION = FLAG.SLOT + FLAG.PAID + FLAG.ADMITTED_ONCE

-- Admits n (PASSED; with a slot, or free to go in). `door`: its door record, changed in place; `key`: digest of the
-- new door key; `address`: where the request comes from. Returns the seq to wait for.
function qm.admit(R, n, rec, door, key, via, address)
  local h, flags = R.h, byte(rec, 2)
  door.before = band(flags, KEPT)
  qm.pass_judged(R, rec, false)
  if band(flags, FLAG.SLOT) > 0 then
    h.pending = h.pending - 1
  else
    h.passes_out = h.passes_out - 1
    qm.slot_change(R, rec, 17, 1)
    if band(flags, FLAG.AT_DOOR) > 0 then qm.door_leave(R, n, rec) end
    if band(flags, FLAG.PAID) == 0 then h.credit = h.credit - 1 end
  end
  h.active = h.active + 1
  if band(flags, FLAG.ADMITTED_ONCE) == 0 then door.first = R.ds end
  door.used, door.admitted, door.key = R.ds, R.ds, key
  qm.session_first(R, n, rec, door, address)
  local first_at = qm.wall_of(h, door.first)
  door.seq = qm.fact(R, qm.FACT.ADMITTED, pack("<I4B", n, via) .. key .. pack("<I8", first_at))
  qm.ticket_put(R, n, 0, pack("<BB", T.ACTIVE, bor(band(flags, 255 - FLAG.AT_DOOR), IN_SESSION)))
  qm.door_put(R, n, door)
  qm.deadline_set(R, n, qm.session_end(h, door))
  return door.seq
end

-- Takes the admission `seq` of n back: pass, slot and claim end are as before, a credit paid at the door is returned.
function qm.admission_undo(R, n, rec, door, seq)
  local h = R.h
  local flags = band(byte(rec, 2), 255 - KEPT) + door.before
  h.active = h.active - 1
  if band(door.before, FLAG.PAID) == 0 then h.credit = h.credit + 1 end
  if band(door.before, FLAG.SLOT) > 0 then
    h.pending = h.pending + 1
  else
    h.passes_out = h.passes_out + 1
    qm.slot_freed(R, rec)
    if band(door.before, FLAG.AT_DOOR) > 0 then qm.door_stand(R, n, flags, rec) end
  end
  if band(door.before, FLAG.ADMITTED_ONCE) == 0 then door.first = 0 end
  if door.roams == 1 then qm.session_forget(R, n) end
  door.used, door.admitted, door.seq, door.roams, door.key = 0, 0, 0, 0, qm.NO_DOOR_KEY
  qm.ticket_put(R, n, 0, pack("<BB", T.PASSED, flags))
  qm.door_put(R, n, door)
  qm.deadline_set(R, n, qm.pass_due(R, flags, qm.seen_of(rec), door))
  local ends = qm.wall_bytes(R, door.pass_end)
    .. (door.claim_end > 0 and qm.wall_bytes(R, door.claim_end) or pack("<I8", 0))
  local kept = band(door.before, FLAG.SLOT + FLAG.PAID)
  qm.fact(R, qm.FACT.ADMISSION_WITHDRAWN, pack("<I4I8BI8", n, seq, kept, door.passed_at) .. ends)
end

-- True when an owner has taken the unused pass of `rec` back from a session: from then on it is that of the cookie alone.
function qm.is_reclaimed(rec)
  local state, flags = byte(rec, 1, 2)
  return state == T.PASSED and band(flags, FLAG.ADMITTED_ONCE) > 0
end

-- Ends the use of n's running session: a fresh pass has its slot, and its door key is void. The key's digest stays in
-- the door record, so that who still presents it can be told what happened. Returns the new ticket record.
function qm.reclaim(R, n, rec, door)
  local h = R.h
  local flags = band(byte(rec, 2), OWN) + FLAG.SLOT + FLAG.PAID
  h.active, h.pending = h.active - 1, h.pending + 1
  if door.roams == 1 then qm.session_forget(R, n) end
  door.pass_end, door.claim_end = R.ds + h.passed_ttl * 10, R.ds + qm.claim_ds(h)
  door.before, door.roams, door.used, door.admitted = 0, 0, 0, 0
  local ends = qm.wall_bytes(R, door.pass_end) .. qm.wall_bytes(R, door.claim_end)
  door.seq = qm.fact(R, qm.FACT.RECLAIMED, pack("<I4", n) .. ends)
  local fresh = char(T.PASSED, flags) .. sub(rec, 3, 4) .. pack("<I4", R.ds)
  qm.ticket_put(R, n, 0, fresh)
  qm.door_put(R, n, door)
  qm.deadline_set(R, n, qm.pass_due(R, flags, R.ds, door))
  return fresh .. sub(rec, 9)
end
