-- Purpose: Makes every call on the room answer FENCED until a rebuild has written a new header.
-- Keys: header
-- Args: gen · epoch: only a header of this generation and not of a later epoch is fenced
-- Returns: code, fenced (1 = fenced now, or there is no header that could answer)
-- Errors: none
-- Facts: none
-- Cost: O(1)

qm.fn("fence", { "allow-oom" }, function(keys, args)
  local R = qm.room_raw(keys[1])
  if not R then return { qm.CODE.OK, 1 } end
  local h = R.h
  if h.gen ~= tonumber(args[1]) or h.epoch > tonumber(args[2]) then return { qm.CODE.OK, 0 } end
  h.fenced = 1
  redis.call("SET", R.key, qm.header_pack(h))
  qm.room_verify(R.key, false)
  return { qm.CODE.OK, 1 }
end)
