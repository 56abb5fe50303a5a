-- Purpose: How far the journal is, as the live state knows it.
-- Keys: header
-- Args: none
-- Returns: code, gen, seq, committed
-- Errors: NOHEADER, FENCED
-- Facts: none
-- Cost: O(1)

qm.fn("committed", { "no-writes" }, function(keys)
  local R, code = qm.room_raw(keys[1])
  if not R then return { code } end
  if R.h.fenced == 1 or not qm.is_verified(R.key) then return { qm.CODE.FENCED } end
  return { qm.CODE.OK, R.h.gen, R.h.seq, R.h.committed }
end)
