-- Purpose: Withdraws an admission whose commit did not come in time, unless it has come after all (ENG-146).
-- Keys: header
-- Args: gen · epoch (0 = any) · seq of the admitted fact · ticket
-- Returns: code, committed (1 = the admission stands)
-- Errors: NOHEADER, NOROOM, STALE, FENCED (also: the room was rebuilt since)
-- Facts: admission_withdrawn
-- Cost: O(1)

qm.fn("undo_admission", { "allow-oom" }, function(keys, args)
  local R, code = qm.room_enter(keys[1], args[1], 0)
  if not R then return { code } end
  local epoch, seq, n = tonumber(args[2]), tonumber(args[3]), tonumber(args[4])
  if epoch ~= 0 and epoch ~= R.h.epoch then return { qm.CODE.FENCED } end
  if seq <= R.h.committed then return { qm.CODE.OK, 1 } end
  local rec = n >= 1 and n <= R.h.last_ticket and qm.ticket_get(R, n)
  local door = rec and rec:byte(1) == qm.T.ACTIVE and qm.door_get(R, n)
  if door and door.seq == seq then
    qm.admission_undo(R, n, rec, door, seq)
    qm.room_close(R)
  end
  return { qm.CODE.OK, 0 }
end)
