-- Purpose: The header as it is stored, for recovery.
-- Keys: header
-- Args: none
-- Returns: code, verified (1 = may answer, as far as the comparison with the journal goes), header string
--   (app/domain/layout.py)
-- Errors: NOHEADER
-- Facts: none
-- Cost: O(1)

qm.fn("header", { "no-writes" }, function(keys)
  local data = redis.call("GET", keys[1])
  if not data then return { qm.CODE.NOHEADER } end
  return { qm.CODE.OK, qm.is_verified(keys[1]) and 1 or 0, data }
end)
