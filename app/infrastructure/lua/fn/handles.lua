-- Purpose: Handles of places in the pre-queues of this generation, for a look-up by ref (ENG-245).
-- Keys: header
-- Args: chunk
-- Returns: code, gen, places given so far, the handles of that chunk (16 bytes each; zeros = no record)
-- Errors: NOHEADER, NOROOM, FENCED
-- Facts: none
-- Cost: O(1024)

qm.fn("handles", { "no-writes" }, function(keys, args)
  local R, code = qm.room_open(keys[1], 0, 0)
  if not R then return { code } end
  local data, found = redis.call("GET", R.g .. "h" .. args[1]) or "", {}
  for at = 1, #data, qm.PLACE_BYTES do found[#found + 1] = data:sub(at + 72, at + 87) end
  return { qm.CODE.OK, R.h.gen, R.h.places, table.concat(found) }
end)
