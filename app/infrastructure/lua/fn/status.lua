-- Purpose: Tells each item its place; notes the owner as seen and, with a pass, as told, when the item asks for it.
-- Keys: header
-- Args: gen · cfg_ver (0 = any) · then items: head and strict 16 (lib/owner.lua), the tail at byte 29
-- Returns: code, W, wall ms of ds 0, state, release rate, floor mark, gen, epoch, one string with 40 bytes an item
--   (lib/view.lua); while scheduled opensAt and places
-- Errors: NOHEADER, NOROOM, STALE, FENCED
-- Facts: owner_rebound
-- Cost: O(1) an item and O(line / 500,000) a call

local TAIL = 29

local byte, band, concat
qm.bind(function() byte, band, concat = string.byte, bit.band, table.concat end)

local P, REASON, ASK = qm.PRESENTED, qm.REASON, qm.ASK

-- A place of the pre-queue that has no ticket to tell.
local function status_place(R, item, p, rec, bypass)
  local proof = qm.prove(item, TAIL, rec)
  if bypass then return qm.view_bypass() end
  if proof == 0 then return qm.view_gone(REASON.BAD_TOKEN) end
  local asks = byte(item, 2)
  if band(asks, ASK.SEEN) > 0 then qm.place_seen(R, p, rec) end
  if proof == 2 then qm.bind_place(R, p, rec, item, TAIL) end
  return (qm.view_place(R, p, rec, proof))
end

local function status(R, item)
  local presented, gen, n = qm.item_token(item)
  local bypass = qm.state_of(R.h) == qm.S.BYPASS
  local gone = bypass and qm.view_bypass or qm.view_gone
  if presented == P.NONE then return gone(REASON.NEW) end
  if presented == P.REFUSED then return gone(REASON.BAD_TOKEN) end
  if gen ~= R.h.gen then return gone(REASON.STALE_GENERATION) end
  if presented == P.HANDLE then
    local p, place
    n, p, place = qm.handle_find(R, item, TAIL)
    if p then return status_place(R, item, p, place, bypass) end
    if not n then return gone(REASON.EXPIRED) end
  end
  local rec = n >= 1 and n <= R.h.last_ticket and qm.ticket_get(R, n)
  if not rec then return bypass and qm.view_bypass() or qm.view_missing(R, n) end
  local proof = qm.prove(item, TAIL, rec)
  local holds = qm.holds_session(R, n, rec, item, TAIL)
  if proof == 0 and not holds then return gone(REASON.BAD_TOKEN) end
  local asks = byte(item, 2)
  local seen = band(asks, ASK.SEEN) > 0
  if qm.is_live(byte(rec, 1)) then
    if seen then rec = qm.mark_seen(R, n, rec) end
    if proof == 2 then rec = qm.bind_owner(R, n, rec, 2, item, TAIL, "") end
  end
  if bypass then return qm.view_bypass() end
  return (qm.view(R, n, rec, proof, holds, band(asks, ASK.TOLD) > 0, seen))
end

qm.fn("status", { "allow-oom" }, function(keys, args)
  local R, code = qm.room_enter(keys[1], args[1], args[2])
  if not R then return { code } end
  local answers = {}
  for i = 3, #args do answers[i - 2] = (status(R, args[i])) end
  local answer = qm.answer_head(R)
  answer[#answer + 1] = concat(answers)
  qm.answer_tail(R, answer)
  qm.room_close(R)
  return answer
end)
