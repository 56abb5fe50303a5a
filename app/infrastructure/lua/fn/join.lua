-- Purpose: Gives each item its place: the live ticket it owns (by token, else by cookie), or the next number.
-- Keys: header
-- Args: gen · cfg_ver (0 = any) · line max · then items: head and strict 16 (lib/owner.lua), ip 16, net u16, address 8,
--   cookie 16, strict 16 of a new ticket, then the tail at byte 87, whose loose 16 is the new ticket's too
-- Returns: code, W, wall ms of ds 0, state, release rate, floor mark, gen, epoch, one string with 48 bytes an item: join code
--   u8, reason u8, pad 2, seq u32 (0 = nothing to wait for), view (lib/view.lua); while scheduled opensAt and places
-- Errors: NOHEADER, NOROOM, STALE, FENCED
-- Facts: joined, promoted (ENG-118), prejoined, reclaimed, owner_rebound
-- Cost: O(1) an item and O(line / 500,000) a call

local TAIL, PLACE, LAST = 87, 45, 102 -- where tail and place (net, address) begin, and where the new record ends

local byte, sub, char, pack, concat, tonumber_, call
qm.bind(function()
  byte, sub, char, pack, concat, tonumber_, call =
    string.byte, string.sub, string.char, struct.pack, table.concat, tonumber, redis.call
end)

local J, T, P, REASON, PHASE = qm.JOIN, qm.T, qm.PRESENTED, qm.REASON, qm.PHASE

-- True while newcomers get a place in the pre-queue.
local function is_pre_queue(h)
  return h.phase == PHASE.OPEN or h.phase == PHASE.CALLED
end

local function by_token(R, item, last)
  local presented, gen, n = qm.item_token(item)
  if presented == P.NONE then return nil, REASON.NEW end
  if presented == P.REFUSED then return nil, REASON.BAD_TOKEN end
  if gen ~= R.h.gen then return nil, REASON.STALE_GENERATION end
  if presented == P.HANDLE then
    local p, place
    n, p, place = qm.handle_find(R, item, TAIL)
    if p then return qm.carry_place(R, p, place, qm.prove(item, TAIL, place), item, TAIL) end
    if not n then return nil, REASON.EXPIRED end
  end
  local rec = n >= 1 and n <= last and qm.ticket_get(R, n)
  if not rec then return nil, qm.reason_missing(R, n) end
  local proof = qm.prove(item, TAIL, rec)
  if proof == 0 and byte(rec, 1) ~= T.ACTIVE then return nil, REASON.BAD_TOKEN end
  return qm.carry_on(R, n, rec, proof, item, TAIL)
end

local function by_cookie(R, item, last, reason)
  local at = TAIL + 16
  for _ = 1, byte(item, 3) do
    local n, p, rec = qm.owner_find(R, call("HGET", R.g .. "o", sub(item, at, at + 7)))
    if n then rec = n >= 1 and n <= last and qm.ticket_get(R, n) end
    if rec and sub(rec, 25, 40) == sub(item, at, at + 15) then
      local view, why, seq
      if n then
        view, why, seq = qm.carry_on(R, n, rec, 2, item, TAIL)
      else
        view, why, seq = qm.carry_place(R, p, rec, 2, item, TAIL)
      end
      if view then return view, why, seq end
      if reason == REASON.NEW then reason = why end
    end
    at = at + 16
  end
  return nil, reason
end

-- What all new tickets of one call share.
local function new_batch(R)
  local h = R.h
  return {
    first = h.last_ticket + 1, records = {}, owners = {}, fact_head = qm.fact_head(R, qm.FACT.JOINED),
    waiting_head = pack("<BBBxI4I6", T.WAITING, 0, 0, R.ds, h.wall),
    passed_head = pack("<BBBxI4I6", T.PASSED, qm.FLAG.SLOT + qm.FLAG.PAID, 0, R.ds, h.wall),
  }
end

local function create(R, item, batch, reason)
  local h = R.h
  local at_once = qm.promote_on_join(R, item, PLACE + 2)
  local n = h.last_ticket + 1
  h.last_ticket, h.now_joins = n, h.now_joins + 1
  local from = qm.item_from(item, TAIL)
  local seq = qm.fact_add(R, batch.fact_head .. pack("<I4", n) .. sub(item, 29, LAST) .. from)
  local head = at_once and batch.passed_head or batch.waiting_head
  if from ~= "" then
    head = sub(head, 1, 1) .. char(byte(head, 2) + qm.FLAG.HAS_FROM) .. sub(head, 3)
    qm.from_put(R, n, from)
  end
  batch.records[#batch.records + 1] = head .. sub(item, PLACE, LAST)
  batch.owners[#batch.owners + 1] = sub(item, 55, 62)
  batch.owners[#batch.owners + 1] = n
  local answer = pack("<BBxxI4", J.CREATED, reason, seq)
  if at_once then return answer .. qm.view_new_pass(R, n, qm.promote_new(R, n, item, PLACE + 2)) end
  qm.place_change(R, "i", item, PLACE, 1)
  return answer .. qm.view_new(R, n)
end

local function pass_by(R, item)
  if not qm.runs_session(R, item, TAIL) then qm.arrive(R, sub(item, 47, 54), sub(item, 87, 94)) end
  return pack("<BBxxI4", J.BYPASS, 0, 0) .. qm.view_bypass()
end

local function join(R, item, batch, line_max)
  local h, last = R.h, batch.first - 1
  if qm.state_of(h) == qm.S.BYPASS then return pass_by(R, item) end
  local view, reason, seq = by_token(R, item, last)
  if not view and byte(item, 3) > 0 then view, reason, seq = by_cookie(R, item, last, reason) end
  if view then return pack("<BBxxI4", J.EXISTING, reason, seq) .. view end
  if byte(item, 2) >= qm.ASK.BARRED then return pack("<BBxxI4", J.BARRED, reason, 0) .. qm.view_gone(reason) end
  if is_pre_queue(h) then
    return qm.place_give(R, item, reason, line_max)
  end
  if qm.place_refused(R, "i", item, PLACE, h.ip_cap) then
    return pack("<BBxxI4", J.IDENTITY_LIMIT, reason, 0) .. qm.view_gone(reason)
  end
  if qm.line_size(R) >= line_max then return qm.line_full(R, reason, line_max) end
  return create(R, item, batch, reason)
end

local function join_all(keys, args)
  local R, code = qm.room_enter(keys[1], args[1], args[2])
  if not R then return { code } end
  local line_max, answers, batch = tonumber_(args[3]), {}, new_batch(R)
  qm.places_load(R, is_pre_queue(R.h) and "ip" or "i", args, 4, PLACE)
  for i = 4, #args do answers[i - 3] = join(R, args[i], batch, line_max) end
  if #batch.records > 0 then
    qm.records_save(R, batch.first, batch.records)
    call("HSET", R.g .. "o", unpack(batch.owners))
  end
  if R.arrivals then qm.arrivals_count(R) end
  local answer = qm.answer_head(R)
  answer[#answer + 1] = concat(answers)
  qm.answer_tail(R, answer)
  qm.room_close(R)
  return answer
end

qm.fn("join", {}, join_all)
qm.fn("join_full", { "allow-oom" }, join_all)
