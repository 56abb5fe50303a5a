-- Purpose: Changes fields of a room, those that differ from the stored ones.
-- Keys: header
-- Args: gen (0 = any) · actor (JSON string) · why (JSON string) · number of expected fields · then pairs field, JSON
--   value, first those that must hold now, then the new ones
-- Returns: code, background (1 = only state and rate), gen, cfg_ver, seq to wait for, epoch, names of changed fields…
-- Errors: NOHEADER, NOROOM, STALE, FENCED, CONFLICT (an expected field differs)
-- Facts: room_updated, unless nothing differs
-- Cost: O(fields)

local function body_of(changed, args, h)
  local parts = {}
  for i, field in ipairs(changed) do parts[i] = '"' .. field[1] .. '":' .. field[2] end
  return '{"changes":{' .. table.concat(parts, ",") .. '},"actor":' .. args[2] .. ',"why":' .. args[3]
    .. ',"cfg_ver":' .. h.cfg_ver .. ',"updated_at":' .. string.format("%.0f", h.wall) .. "}"
end

qm.fn("room_update", { "allow-oom" }, function(keys, args)
  local R, code = qm.room_enter(keys[1], args[1], 0)
  if not R then return { code } end
  local h = R.h
  local first_new = 5 + 2 * tonumber(args[4])
  if #qm.config_changed(R.p, qm.config_pairs(args, 5, first_new - 1)) > 0 then return { qm.CODE.CONFLICT } end
  local changed, light = qm.config_changed(R.p, qm.config_pairs(args, first_new))
  if #changed == 0 then return { qm.CODE.OK, 0, h.gen, h.cfg_ver, qm.outstanding(h), h.epoch } end
  qm.accrue(h) -- what was earned so far was earned at the old rate
  if h.credit > 1 then h.credit = 1 end
  local ttl, longest = h.session_ttl, h.session_max
  qm.config_to_header(h, changed)
  if h.session_ttl < ttl or h.session_max < longest then h.rescore = 1 end
  qm.config_store(R.p, changed)
  for _, field in ipairs(changed) do
    if field[1] == "rules" then qm.tallies_trim(R, field[2]) end
  end
  if not light then h.cfg_ver = h.cfg_ver + 1 end
  h.updated_at = h.wall
  local seq = qm.fact(R, qm.FACT.ROOM_UPDATED, body_of(changed, args, h))
  qm.room_close(R)
  local answer = { qm.CODE.OK, light and 1 or 0, h.gen, h.cfg_ver, seq, h.epoch }
  for i, field in ipairs(changed) do answer[6 + i] = field[1] end
  return answer
end)
