-- Purpose: Ends the place, pass or session of each item's owner (ENG-077).
-- Keys: header
-- Args: gen · cfg_ver (0 = any) · then items: head and strict 16 (lib/owner.lua), the tail at byte 29
-- Returns: code, epoch, then for each item: state before (0 = nothing was left), seq
-- Errors: NOHEADER, NOROOM, STALE, FENCED
-- Facts: left
-- Cost: O(1) an item

local TAIL = 29

-- A place of the pre-queue that has no ticket to tell.
local function leave_place(R, item, p, rec)
  if qm.place_state(R, p, rec) ~= qm.T.WAITING or qm.prove(item, TAIL, rec) == 0 then return 0, 0 end
  local n = qm.place_finish(R, p, rec, qm.T.EXPIRED, qm.WHY.LEFT)
  qm.place_left(R, n > 0 and "i" or "ip", rec, 15) -- with a number, told or not, it counted in the line
  return qm.T.PREQUEUED, qm.fact(R, qm.FACT.LEFT, struct.pack("<I4I4", 0, p))
end

local function leave(R, item)
  local presented, gen, n = qm.item_token(item)
  if presented < qm.PRESENTED.VALID or gen ~= R.h.gen then return 0, 0 end
  if presented == qm.PRESENTED.HANDLE then
    local p, place
    n, p, place = qm.handle_find(R, item, TAIL)
    if p then return leave_place(R, item, p, place) end
    n = n or 0
  end
  if n < 1 or n > R.h.last_ticket then return 0, 0 end
  local rec = qm.ticket_get(R, n)
  if not rec then return 0, 0 end
  local state = rec:byte(1)
  if not qm.is_live(state) then return 0, 0 end
  local proof = qm.prove(item, TAIL, rec)
  if proof == 0 and not qm.holds_session(R, n, rec, item, TAIL) then return 0, 0 end
  if proof == 1 and qm.is_reclaimed(rec) then return 0, 0 end
  qm.finish(R, n, rec, qm.T.EXPIRED, qm.WHY.LEFT)
  if state == qm.T.WAITING then qm.place_left(R, "i", rec, 15) end
  return state, qm.fact(R, qm.FACT.LEFT, struct.pack("<I4", n))
end

qm.fn("leave", { "allow-oom" }, function(keys, args)
  local R, code = qm.room_enter(keys[1], args[1], args[2])
  if not R then return { code } end
  local answer = { qm.CODE.OK, R.h.epoch }
  for i = 3, #args do
    local state, seq = leave(R, args[i])
    answer[#answer + 1] = state
    answer[#answer + 1] = seq
  end
  qm.room_close(R)
  return answer
end)
