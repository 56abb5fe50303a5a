-- Purpose: Withdraws a pre-queue place whose commit did not come in time, unless it has come after all (ENG-075).
-- Keys: header
-- Args: gen · epoch (0 = any) · seq of the prejoined fact · handle (16 bytes)
-- Returns: code, committed (1 = the place stands)
-- Errors: NOHEADER, NOROOM, STALE, FENCED (also: the room was rebuilt since)
-- Facts: join_withdrawn
-- Cost: O(1)

qm.fn("undo_prejoin", { "allow-oom" }, function(keys, args)
  local R, code = qm.room_enter(keys[1], args[1], 0)
  if not R then return { code } end
  local epoch, seq = tonumber(args[2]), tonumber(args[3])
  if epoch ~= 0 and epoch ~= R.h.epoch then return { qm.CODE.FENCED } end
  if seq <= R.h.committed then return { qm.CODE.OK, 1 } end
  local p, rec = qm.place_of(R, args[4])
  -- A place whose fact is not committed has no ticket that was told: the draw's fact would stand behind it.
  if p and qm.place_state(R, p, rec) == qm.T.WAITING then
    qm.place_finish(R, p, rec, qm.T.WITHDRAWN, 0)
    qm.fact(R, qm.FACT.JOIN_WITHDRAWN, struct.pack("<I4I8I4", 0, seq, p))
    qm.room_close(R)
  end
  return { qm.CODE.OK, 0 }
end)
