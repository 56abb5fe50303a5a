-- Purpose: Withdraws a join whose commit did not come in time, unless it has come after all (ENG-075).
-- Keys: header
-- Args: gen · epoch (0 = any) · seq of the joined fact · ticket
-- Returns: code, committed (1 = the join stands)
-- Errors: NOHEADER, NOROOM, STALE, FENCED (also: the room was rebuilt since)
-- Facts: join_withdrawn
-- Cost: O(1)

qm.fn("undo_join", { "allow-oom" }, function(keys, args)
  local R, code = qm.room_enter(keys[1], args[1], 0)
  if not R then return { code } end
  local epoch, seq, n = tonumber(args[2]), tonumber(args[3]), tonumber(args[4])
  if epoch ~= 0 and epoch ~= R.h.epoch then return { qm.CODE.FENCED } end
  if seq <= R.h.committed then return { qm.CODE.OK, 1 } end
  local rec = n >= 1 and n <= R.h.last_ticket and qm.ticket_get(R, n)
  if rec and qm.is_live(rec:byte(1)) then
    qm.finish(R, n, rec, qm.T.WITHDRAWN, 0)
    qm.fact(R, qm.FACT.JOIN_WITHDRAWN, struct.pack("<I4I8", n, seq))
    qm.room_close(R)
  end
  return { qm.CODE.OK, 0 }
end)
