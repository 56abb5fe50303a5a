-- Passes from the head of the line (ENG-121 ... ENG-124). Records are read and written in runs of neighbours, since one
-- command per ticket would be most of the cost. Not here: the pass in the step of a join (promotion_at_join.lua).

local RUN = 64
local SCAN_LIMIT = 5000

local call, byte, sub, char, pack, unpack_, concat, rep, unpack_table
qm.bind(function()
  call, byte, sub, char, pack, unpack_ =
    redis.call, string.byte, string.sub, string.char, struct.pack, struct.unpack
  concat, rep, unpack_table = table.concat, string.rep, unpack
end)

local T, FLAG, CHUNK = qm.T, qm.FLAG, qm.CHUNK
local TICKET_BYTES, DOOR_BYTES = qm.TICKET_BYTES, qm.DOOR_BYTES
local BOTH = FLAG.SLOT + FLAG.PAID

-- Fact of passes given now: `runs` of { first, count, flags }.
function qm.promoted_fact(R, by, pass_end, claim_end, runs)
  local any_slot = false
  for i = 1, #runs do
    local run = runs[i]
    any_slot = any_slot or run[3] == BOTH
    runs[i] = pack("<I4I4B", run[1], run[2], run[3])
  end
  local claim = any_slot and qm.wall_of(R.h, claim_end) or 0
  local head = pack("<BI8I8", by, qm.wall_of(R.h, pass_end), claim)
  return qm.fact(R, qm.FACT.PROMOTED, head .. concat(runs))
end

local function note_run(runs, n, flags)
  local last = runs[#runs]
  if last and last[3] == flags and last[1] + last[2] == n then
    last[2] = last[2] + 1
  else
    runs[#runs + 1] = { n, 1, flags }
  end
end

-- State of one walk over the head of the line.
local function new_walk(R)
  local h = R.h
  local pass_end = R.ds + h.passed_ttl * 10
  local claim_end = R.ds + qm.claim_ds(h)
  return {
    pass_end = pass_end, claim_end = claim_end, runs = {}, scores = {}, paid = 0, absent = 0, scanned = 0,
    paid_door = qm.pass_bytes(h.wall, pass_end, claim_end), absent_door = qm.pass_bytes(h.wall, pass_end, 0),
    bounded = h.session_ip_cap > 0, short = {},
    no_door = rep("\0", DOOR_BYTES), seen_limit = R.ds - R.absent_ds, waits = qm.waits_of(R),
  }
end

-- State PASSED with flags none, AT_DOOR, and SLOT + PAID.
local PASSED_OVER, PASSED_TO_DOOR, PASSED_PAID = "\2\0", "\2\8", "\2\3"
-- The same for a ticket with flags of its own, which it keeps.
local function passed(kept, flags, plain)
  return kept == 0 and plain or char(T.PASSED, kept + flags)
end

-- One ticket of a run; `rec` starts at `at` in `block`. Returns its new first two bytes and its door record, or nil
-- for a ticket that left the line.
local function promote(R, walk, n, block, at)
  local h = R.h
  if byte(block, at) ~= T.WAITING then
    h.removed = h.removed - 1
    return nil
  end
  qm.place_change(R, "i", block, at + 14, -1)
  local seen, joined = unpack_("<I4I6", block, at + 4)
  local scores, waits = walk.scores, walk.waits
  waits[#waits + 1] = h.wall - joined
  local is_absent = seen < walk.seen_limit
  local is_bound = walk.bounded and not is_absent and qm.at_bound(R, block, at + 16)
  if is_absent or is_bound then
    walk.absent = walk.absent + 1
    h.passes_out = h.passes_out + 1
    scores[#scores + 1] = walk.pass_end
    scores[#scores + 1] = n
    note_run(walk.runs, n, 0)
    if is_bound then
      qm.bound_stand(R, n, sub(block, at, at + TICKET_BYTES - 1))
      return passed(byte(block, at + 1), FLAG.AT_DOOR, PASSED_TO_DOOR), walk.absent_door
    end
    return passed(byte(block, at + 1), 0, PASSED_OVER), walk.absent_door
  end
  walk.paid = walk.paid + 1
  qm.slot_change(R, block, at + 16, 1)
  h.pending, h.credit = h.pending + 1, h.credit - 1
  local runs, claim_end, paid_door = walk.runs, walk.claim_end, walk.paid_door
  if walk.bounded and qm.claims_shortly(R, block, at + 16) then
    runs, claim_end = walk.short, qm.short_claim_end(R)
    paid_door = qm.pass_bytes(h.wall, walk.pass_end, claim_end)
  end
  local due = seen + R.absent_ds + 1 -- untold: an absent holder gives up his slot (ENG-140)
  scores[#scores + 1] = due < claim_end and due or claim_end
  scores[#scores + 1] = n
  note_run(runs, n, BOTH)
  return passed(byte(block, at + 1), BOTH, PASSED_PAID), paid_door
end

local function may_go_on(R, walk)
  return qm.can_pay(R.h) and qm.slot_free(R.h) and walk.paid + walk.absent < R.work and walk.scanned < SCAN_LIMIT
end

-- One run of neighbours in one chunk, from the ticket after the head on.
local function walk_run(R, walk)
  local h = R.h
  local first = h.head + 1
  local k, i = qm.place(first)
  local count = RUN
  if count > CHUNK - i then count = CHUNK - i end
  if count > h.last_ticket - h.head then count = h.last_ticket - h.head end
  local key = R.g .. "t" .. k
  local block = call("GETRANGE", key, i * TICKET_BYTES, (i + count) * TICKET_BYTES - 1)
  local tickets, doors, done = {}, {}, 0
  while done < count and may_go_on(R, walk) do
    local at = done * TICKET_BYTES + 1
    local head, door = promote(R, walk, first + done, block, at)
    done = done + 1
    walk.scanned = walk.scanned + 1
    tickets[done] = head and head .. sub(block, at + 2, at + TICKET_BYTES - 1) or sub(block, at, at + TICKET_BYTES - 1)
    doors[done] = door or walk.no_door
  end
  if done == 0 then return end
  qm.head_to(R, first)
  h.head = first + done - 1
  call("SETRANGE", key, i * TICKET_BYTES, concat(tickets))
  call("SETRANGE", R.g .. "d" .. k, i * DOOR_BYTES, concat(doors))
end

local function save_scores(R, scores)
  for from = 1, #scores, 1000 do
    local last = from + 999
    if last > #scores then last = #scores end
    call("ZADD", R.g .. "e", unpack_table(scores, from, last))
  end
end

-- Promotes from the head while credit, slots and the call's work last. Returns paid, passed over, and false when the work
-- ended it.
function qm.promote_line(R)
  local h = R.h
  if not qm.can_pay(h) or not qm.slot_free(h) or h.head == h.last_ticket then return 0, 0, true end
  local walk = new_walk(R)
  while h.head < h.last_ticket and may_go_on(R, walk) do walk_run(R, walk) end
  local complete = h.head == h.last_ticket or not qm.can_pay(h) or not qm.slot_free(h)
  R.sums = nil
  save_scores(R, walk.scores)
  if #walk.runs > 0 then qm.promoted_fact(R, qm.BY.TICK, walk.pass_end, walk.claim_end, walk.runs) end
  if #walk.short > 0 then qm.promoted_fact(R, qm.BY.TICK, walk.pass_end, qm.short_claim_end(R), walk.short) end
  h.now_passes, h.now_paid = h.now_passes + walk.paid + walk.absent, h.now_paid + walk.paid
  return walk.paid, walk.absent, complete
end
