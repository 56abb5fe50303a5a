-- Purpose: Takes a ticket out, whatever its state, and forgets its times (ENG-191, ENG-192).
-- Keys: header
-- Args: ticket · actor (text) · gen (0 = any)
-- Returns: code, state before (0 = never issued, or not told yet), seq to wait for, epoch
-- Errors: NOHEADER, NOROOM, STALE, FENCED
-- Facts: ejected, unless it was ejected already
-- Cost: O(1)

qm.fn("eject", { "allow-oom" }, function(keys, args)
  local R, code = qm.room_enter(keys[1], args[3], 0)
  if not R then return { code } end
  local n = tonumber(args[1])
  local rec = n >= 1 and n <= R.h.last_ticket and not qm.is_secret(R, n) and qm.ticket_get(R, n)
  if not rec then return { qm.CODE.OK, 0, 0, 0 } end
  local state = rec:byte(1)
  if state == qm.T.EJECTED then return { qm.CODE.OK, state, qm.outstanding(R.h), R.h.epoch } end
  if qm.is_live(state) then qm.give_up(R, n, rec) else qm.note_end(R, n) end
  qm.ticket_put(R, n, 0, struct.pack("<BBBxI4I6", qm.T.EJECTED, 0, qm.WHY.EJECTED, qm.seen_of(rec), 0))
  local door = qm.door_get(R, n)
  if door.passed_at > 0 then
    door.passed_at = 0
    qm.door_put(R, n, door)
  end
  local seq = qm.fact(R, qm.FACT.EJECTED, struct.pack("<I4B", n, state) .. args[2])
  qm.room_close(R)
  return { qm.CODE.OK, state, seq, R.h.epoch }
end)
