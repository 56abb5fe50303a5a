-- Purpose: Lets everybody in who waits now, whatever the rate says (ENG-187, ENG-188).
-- Keys: header
-- Args: actor (text)
-- Returns: code, state that forbids it (0 = done, 2 = bypass, 3 = scheduled), gen, tickets, seq to wait for, epoch
-- Errors: NOHEADER, NOROOM, FENCED
-- Facts: promoted, slot_given, unless nobody waits
-- Cost: O(log n) BITCOUNTs, at most 500 at the door; ticks write the records, 1000 a call

qm.fn("flush", { "allow-oom" }, function(keys, args)
  local R, code = qm.room_enter(keys[1], 0, 0)
  if not R then return { code } end
  local h = R.h
  local state = qm.state_of(h)
  if state == qm.S.BYPASS or state == qm.S.SCHEDULED then return { qm.CODE.OK, state, h.gen, 0, 0, 0 } end
  local waiting = qm.waiting(h)
  if waiting == 0 then return { qm.CODE.OK, 0, h.gen, 0, qm.outstanding(h), h.epoch } end
  local seq = qm.flush_line(R, args[1])
  qm.room_close(R)
  return { qm.CODE.OK, 0, h.gen, waiting, seq, h.epoch }
end)
