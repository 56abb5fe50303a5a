-- Purpose: Drops everybody in line and in the pre-queue; passes and sessions stay (ENG-189).
-- Keys: header
-- Args: actor (text)
-- Returns: code, gen, tickets dropped, places of the pre-queue dropped, seq to wait for, epoch
-- Errors: NOHEADER, NOROOM, FENCED
-- Facts: purged, unless there is nobody
-- Cost: O(1)

qm.fn("purge", { "allow-oom" }, function(keys, args)
  local R, code = qm.room_enter(keys[1], 0, 0)
  if not R then return { code } end
  local h = R.h
  local waiting, places = qm.waiting_told(R), qm.places_held(R)
  if waiting + places == 0 then return { qm.CODE.OK, h.gen, 0, 0, qm.outstanding(h), h.epoch } end
  local seq = qm.purge_line(R, args[1], waiting, places)
  qm.room_close(R)
  return { qm.CODE.OK, h.gen, waiting, places, seq, h.epoch }
end)
