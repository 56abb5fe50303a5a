-- Purpose: Closes a draw whose places all have their numbers. They are told once this fact is in the journal.
-- Keys: header
-- Args: gen · seed of the draw (32 bytes) · number of identities · SHA-256 of the order (32 bytes)
-- Returns: code, closed (1 = by this call, 0 = no such draw is complete and open), opensAt, number of places, seq, epoch
-- Errors: NOHEADER, NOROOM, STALE, FENCED
-- Facts: drawn
-- Cost: O(1)

qm.fn("draw_end", { "allow-oom" }, function(keys, args)
  local R, code = qm.room_enter(keys[1], args[1], 0)
  if not R then return { code } end
  local h, pre = R.h, qm.pre(R)
  if h.phase ~= qm.PHASE.DRAWING or pre.seed ~= args[2] or pre.done < pre.count then
    return { qm.CODE.OK, 0, 0, 0, 0, h.epoch }
  end
  local seq = qm.draw_close(R, tonumber(args[3]), args[4])
  qm.room_close(R)
  return { qm.CODE.OK, 1, h.opens_at, pre.count, seq, h.epoch }
end)
