-- Purpose: Acknowledges facts up to the journal's head and hands out the next ones. Works on a tombstone too.
-- Keys: header
-- Args: committed (seq of the journal's head; ignored when it is not between the known one and the last fact) · limit
-- Returns: code, gen, epoch, base (seq before the first element), elements…
-- Errors: NOHEADER, FENCED
-- Facts: none
-- Cost: O(acknowledged + handed out)

qm.fn("drain_next", { "allow-oom" }, function(keys, args)
  local R, code = qm.room_raw(keys[1])
  if not R then return { code } end
  local h, committed, limit = R.h, tonumber(args[1]), tonumber(args[2])
  if h.fenced == 1 or not qm.is_verified(R.key) then return { qm.CODE.FENCED } end
  if committed > h.committed and committed <= h.seq then
    redis.call("LPOP", R.p .. "l", committed - h.committed)
    h.committed = committed
    if h.phase == qm.PHASE.DRAWN then qm.draw_reveal(R) end
    redis.call("SET", R.key, qm.header_pack(h))
  end
  local answer = { qm.CODE.OK, h.gen, h.epoch, h.committed }
  if limit == 0 then return answer end
  local elements = redis.call("LRANGE", R.p .. "l", 0, limit - 1)
  for i = 1, #elements do answer[4 + i] = elements[i] end
  return answer
end)
