-- A pass in the step of a join: nobody is ahead, and the room can let somebody in (ENG-118).

local BOTH = qm.FLAG.SLOT + qm.FLAG.PAID

-- True when a ticket that joins now would be promoted in the same step; its address begins at `at` in `data`.
function qm.promote_on_join(R, data, at)
  local h = R.h
  return qm.can_pay(h) and qm.slot_free(h) and qm.waiting(h) == 0 and not qm.door_oldest(R)
    and not qm.at_bound(R, data, at) and not qm.door_unwritten(h)
end

-- Gives new ticket n, for which promote_on_join held, its pass; returns its door as a table.
function qm.promote_new(R, n, data, at)
  local h, waits = R.h, qm.waits_of(R)
  local pass_end, claim_end = R.ds + h.passed_ttl * 10, R.ds + qm.claim_ds(h)
  if qm.claims_shortly(R, data, at) then claim_end = qm.short_claim_end(R) end
  qm.slot_change(R, data, at, 1)
  h.removed = 0
  qm.head_to(R, n)
  R.sums = nil
  h.pending, h.credit = h.pending + 1, h.credit - 1
  h.now_passes, h.now_paid = h.now_passes + 1, h.now_paid + 1
  waits[#waits + 1] = 0
  local door = {
    passed_at = h.wall, before = 0, roams = 0, pass_end = pass_end, claim_end = claim_end, used = 0, first = 0,
    admitted = 0, seq = 0, key = qm.NO_DOOR_KEY,
  }
  qm.door_put(R, n, door)
  qm.deadline_set(R, n, qm.pass_due(R, BOTH, R.ds, door))
  qm.promoted_fact(R, qm.BY.JOIN, pass_end, claim_end, { { n, 1, BOTH } })
  return door
end
