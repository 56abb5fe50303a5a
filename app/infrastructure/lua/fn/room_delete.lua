-- Purpose: Ends a room's generation. The header stays as a tombstone; `collect` unlinks what the generation left.
-- Keys: header
-- Args: actor (JSON string, more members may follow)
-- Returns: code, gen, seq, epoch, waiting, passes, sessions, places in the pre-queue
-- Errors: NOHEADER, NOROOM, FENCED
-- Facts: room_deleted
-- Cost: O(1)

qm.fn("room_delete", { "allow-oom" }, function(keys, args)
  local R, code = qm.room_enter(keys[1], 0, 0)
  if not R then return { code } end
  local h = R.h
  local places, waiting = qm.places_held(R), qm.waiting_told(R)
  local passes, sessions = h.pending + h.passes_out, h.active
  local seq = qm.fact(R, qm.FACT.ROOM_DELETED, '{"actor":' .. args[1] .. ',"last_ticket":' .. h.last_ticket .. "}")
  redis.call("DEL", R.p .. "cfg", R.p .. "k")
  redis.call("HSET", R.p .. "gc", h.gen, math.max(h.last_ticket, h.places))
  h.deleted, h.updated_at = 1, h.wall
  h.head, h.removed, h.active, h.pending, h.passes_out = h.last_ticket, 0, 0, 0, 0
  h.phase, h.opens_at, h.drawn_at = 0, 0, 0
  qm.room_close(R)
  return { qm.CODE.OK, h.gen, seq, h.epoch, waiting, passes, sessions, places }
end)
