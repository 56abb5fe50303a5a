-- Places in the pre-queue of a scheduled room (ENG-167 …). Place numbers go on through all pre-queues of a generation.
--
-- `h<k>`: chunks of place records, 96 bytes: ticket record 72 (lib/tickets.lua), handle 16, pad 8. `hx`: first eight
-- bytes of a handle -> place. `ip`: places per address (lib/addresses.lua). `pn`: u32 a place, its ticket once drawn. `hm`: the state of the
-- pre-queue and of its draw, read and written only while the room has one. `o` names a place as `p<place>`.

local call, byte, sub, pack, unpack_, tonumber_, rep, max
qm.bind(function()
  call, byte, sub, rep, max = redis.call, string.byte, string.sub, string.rep, math.max
  pack, unpack_, tonumber_ = struct.pack, struct.unpack, tonumber
end)

local PLACE_BYTES, T = qm.PLACE_BYTES, qm.T

-- places of earlier pre-queues, places held now, purged up to, first ticket, drawn places, placed ones, seq of
-- the closing fact; then the seed. PRE of domain/layout.py.
local FORMAT = "<ddddddd"
local SEED_AT = 57

-- State of the pre-queue and its draw, kept in R for this call.
function qm.pre(R)
  local pre = R.pre
  if pre then return pre end
  local data = call("GET", R.g .. "hm")
  if data then
    local base, live, purged, first, count, done, draw_seq = unpack_(FORMAT, data)
    pre = {
      base = base, live = live, purged = purged, first = first, count = count, done = done, draw_seq = draw_seq,
      seed = sub(data, SEED_AT), data = data,
    }
  else
    pre = { base = 0, live = 0, purged = 0, first = 0, count = 0, done = 0, draw_seq = 0, seed = rep("\0", 32) }
  end
  R.pre = pre
  return pre
end

-- Writes what qm.pre gave, if it changed.
function qm.pre_save(R)
  local d = R.pre
  local data = pack(FORMAT, d.base, d.live, d.purged, d.first, d.count, d.done, d.draw_seq) .. d.seed
  if data ~= d.data then call("SET", R.g .. "hm", data) end
end

-- Places held in the pre-queue now.
function qm.places_held(R)
  return R.h.phase > 0 and qm.pre(R).live or 0
end

-- Numbers of the running draw that wait as far as the line knows.
local function drawn_between(R)
  local pre = qm.pre(R)
  return qm.drawn_waiting(R, max(pre.first, R.h.head + 1), pre.first + pre.count - 1)
end

-- Tickets in line as they are told: numbers that a running draw has taken are still places (ENG-229). Of these, those
-- that were given up or purged do not wait either.
function qm.waiting_told(R)
  local h = R.h
  if h.phase < qm.PHASE.DRAWING then return qm.waiting(h) end
  return qm.waiting(h) - drawn_between(R)
end

-- Waiting tickets before ticket n as they are told: who gave up his place in the middle of a draw is not among them,
-- though nobody knows yet which number he leaves.
function qm.ahead_told(R, n)
  local ahead = qm.ahead(R, n)
  if R.h.phase < qm.PHASE.DRAWING or n < qm.pre(R).first then return ahead end
  return ahead - drawn_between(R) + qm.pre(R).live
end

-- Tickets in line and places in the pre-queue (ENG-294).
function qm.line_size(R)
  if R.h.phase == 0 then return qm.waiting(R.h) end
  return qm.waiting_told(R) + qm.pre(R).live
end

-- Answer to a newcomer for whom there is no room (ENG-294): in the line, or with `line_max` 0 in the live store. It is
-- remembered for a minute, for whoever watches the room.
function qm.line_full(R, reason, line_max)
  if not R.is_full then
    R.is_full = true
    call("SET", R.p .. "full", line_max > 0 and "line" or "memory", "PX", 60000)
  end
  return pack("<BBxxI4", qm.JOIN.LINE_FULL, reason, line_max > 0 and 0 or 1) .. qm.view_gone(reason)
end

-- Overwrites the bytes of place p's record from offset `at` on.
function qm.place_put(R, p, at, bytes)
  local k, i = qm.place(p)
  call("SETRANGE", R.g .. "h" .. k, i * PLACE_BYTES + at, bytes)
end

-- Record of place p (96 bytes), or nil when there is none.
function qm.place_get(R, p)
  local k, i = qm.place(p)
  local rec = call("GETRANGE", R.g .. "h" .. k, i * PLACE_BYTES, i * PLACE_BYTES + PLACE_BYTES - 1)
  if #rec == PLACE_BYTES and byte(rec, 1) ~= T.NONE then return rec end
  return nil
end

-- Ticket that the draw has given to place p, revealed or not; 0 = none.
function qm.place_number(R, p)
  local data = call("GETRANGE", R.g .. "pn", (p - 1) * 4, (p - 1) * 4 + 3)
  return #data == 4 and (unpack_("<I4", data)) or 0
end

-- Ticket of place p, or nil while it has none that may be told (ENG-180).
function qm.place_ticket(R, p)
  if R.h.phase > 0 and p > qm.pre(R).base then return nil end
  local n = qm.place_number(R, p)
  return n > 0 and n or nil
end

-- True for a number that a running draw has taken: whose it is may not be told yet (ENG-180).
function qm.is_secret(R, n)
  if R.h.phase < qm.PHASE.DRAWING then return false end
  local pre = qm.pre(R)
  return n >= pre.first and n < pre.first + pre.count
end

-- Place with `handle` (16 bytes) and its record, or nil.
function qm.place_of(R, handle)
  if R.h.places == 0 then return nil end
  local p = tonumber_(call("HGET", R.g .. "hx", sub(handle, 1, 8)) or 0)
  local rec = p > 0 and qm.place_get(R, p)
  if rec and sub(rec, 73, 88) == handle then return p, rec end
  return nil
end

-- What an item's handle leads to: its ticket, or nil, its place and the place's record; nothing when it is unknown.
function qm.handle_find(R, item, tail)
  local p, rec = qm.place_of(R, qm.item_handle(item, tail))
  if not p then return nil end
  local n = qm.place_ticket(R, p)
  if n then return n end
  return nil, p, rec
end

-- The same for an entry of the owner index `o`, or false.
function qm.owner_find(R, entry)
  local n = tonumber_(entry or 0)
  if n then return n end
  local p = tonumber_(sub(entry, 2))
  n = qm.place_ticket(R, p)
  if n then return n end
  return nil, p, qm.place_get(R, p)
end

-- State and why of a place that has no ticket to tell.
function qm.place_state(R, p, rec)
  local state, _, why = byte(rec, 1, 3)
  if state == T.WAITING and p <= qm.pre(R).purged then return T.EJECTED, qm.WHY.PURGE end
  return state, why
end
