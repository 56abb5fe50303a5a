-- Purpose: Lets a room answer after its live state was compared with the journal, if it still is what was compared.
-- Keys: header
-- Args: gen · epoch · seq · epoch from now on
-- Returns: code, verified (0 = the header differs, or is fenced)
-- Errors: NOHEADER, FENCED (unknown layout)
-- Facts: none
-- Cost: O(1)

qm.fn("verify", { "allow-oom" }, function(keys, args)
  local R, code = qm.room_raw(keys[1])
  if not R then return { code } end
  local h = R.h
  local same = h.gen == tonumber(args[1]) and h.epoch == tonumber(args[2]) and h.seq == tonumber(args[3])
  if not same or h.fenced == 1 then return { qm.CODE.OK, 0 } end
  local epoch = tonumber(args[4])
  if epoch ~= h.epoch then
    h.epoch = epoch
    redis.call("SET", R.key, qm.header_pack(h))
  end
  qm.room_verify(keys[1], true)
  return { qm.CODE.OK, 1 }
end)
