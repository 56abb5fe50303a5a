-- Purpose: Changes fields of a room, those that differ from the stored ones.
-- Keys: header
-- Args: gen (0 = any) · actor (JSON string, more members may follow) · why (JSON string) · number of expected fields ·
--   then pairs field, JSON value, first those that must hold now, then the new ones
-- Returns: code, background (1 = only state and rate), gen, cfg_ver, seq to wait for, epoch, places in the
--   pre-queue, names of changed fields…
-- Errors: NOHEADER, NOROOM, STALE, FENCED, CONFLICT (an expected field differs), BUSY (another opening time while the
--   order is drawn)
-- Facts: scheduled, room_updated, unless nothing differs
-- Cost: O(fields)

qm.fn("room_update", { "allow-oom" }, function(keys, args)
  local R, code = qm.room_enter(keys[1], args[1], 0)
  if not R then return { code } end
  local h = R.h
  local first_new = 5 + 2 * tonumber(args[4])
  if #qm.config_changed(R.p, qm.config_pairs(args, 5, first_new - 1)) > 0 then return { qm.CODE.CONFLICT } end
  local changed, light = qm.config_changed(R.p, qm.config_pairs(args, first_new))
  if #changed == 0 then return { qm.CODE.OK, 0, h.gen, h.cfg_ver, qm.outstanding(h), h.epoch, 0 } end
  if h.phase >= qm.PHASE.DRAWING and qm.opening_in(changed) then return { qm.CODE.BUSY } end
  local seq = qm.room_change(R, changed, light, args[2], args[3])
  local places = qm.places_held(R)
  qm.room_close(R)
  local answer = { qm.CODE.OK, light and 1 or 0, h.gen, h.cfg_ver, seq, h.epoch, places }
  for i, field in ipairs(changed) do answer[7 + i] = field[1] end
  return answer
end)
