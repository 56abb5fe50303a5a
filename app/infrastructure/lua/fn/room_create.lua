-- Purpose: Makes a room: header, configuration, fact room_created. Nothing happens when the id is in use.
-- Keys: header
-- Args: gen · epoch · actor (JSON string, more members may follow) · salt (16 bytes) · config (JSON object) · then pairs
--   field, JSON value
-- Returns: code, outcome (1 created, 0 exists, 2 generation not above the last one), gen, cfg_ver, seq, epoch
-- Errors: FENCED, BUSY (the facts of the deleted generation are not in the journal yet)
-- Facts: room_created
-- Cost: O(fields)

-- `earliest`: last recorded time of the generation before, than which nothing of this one may be earlier.
local function new_header(gen, epoch, fields, earliest)
  local now = qm.time_ms()
  local wall = math.max(now, earliest)
  local h = {}
  for _, name in ipairs(qm.HEADER_FIELDS) do h[name] = 0 end
  h.layout, h.gen, h.epoch, h.t0, h.wall, h.last_time = qm.LAYOUT, gen, epoch, wall, wall, now
  h.cfg_ver, h.created_at, h.updated_at, h.credit = 1, wall, wall, 1
  qm.config_to_header(h, fields)
  return h
end

qm.fn("room_create", {}, function(keys, args)
  local key, gen = keys[1], tonumber(args[1])
  local old, code = qm.room_raw(key)
  if old then
    local h = old.h
    if h.fenced == 1 then return { qm.CODE.FENCED } end
    if h.deleted == 0 then return { qm.CODE.OK, 0, h.gen, h.cfg_ver, qm.outstanding(h), h.epoch } end
    if h.seq > h.committed then return { qm.CODE.BUSY } end
    if gen <= h.gen then return { qm.CODE.OK, 2, h.gen, 0, 0, h.epoch } end
  elseif code ~= qm.CODE.NOHEADER then
    return { code }
  end
  local fields = qm.config_pairs(args, 6)
  local h = new_header(gen, tonumber(args[2]), fields, old and old.h.wall or 0)
  local p = key:sub(1, -2)
  redis.call("DEL", p .. "cfg", p .. "k")
  qm.config_store(p, fields)
  redis.call("HSET", p .. "cfg", "salt", args[4], "mark_rate", h.rate, "mark_rate_at", 0)
  local R = { key = key, p = p, g = p .. gen .. ":", h = h, ds = 0, facts = {}, seq_before = 0, books = {} }
  local opens_at = qm.opening_in(fields)
  if opens_at and opens_at > 0 then qm.schedule(R, opens_at) end
  local hex = args[4]:gsub(".", function(c) return string.format("%02x", c:byte()) end)
  local body = '{"config":' .. args[5] .. ',"salt":"' .. hex .. '","actor":' .. args[3]
    .. ',"gen":' .. gen .. ',"cfg_ver":1}'
  local seq = qm.fact(R, qm.FACT.ROOM_CREATED, body)
  qm.room_close(R)
  qm.room_verify(key, true)
  return { qm.CODE.OK, 1, gen, 1, seq, h.epoch }
end)
