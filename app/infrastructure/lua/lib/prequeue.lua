-- Holders of places in the pre-queue: what they are told, how they come and go. Records and keys: lib/places.lua.

local call, sub, char, gsub, pack, sha1hex, tonumber_
qm.bind(function()
  call, sub, char, gsub = redis.call, string.sub, string.char, string.gsub
  pack, sha1hex, tonumber_ = struct.pack, redis.sha1hex, tonumber
end)

local T, PHASE, REASON, V, J = qm.T, qm.PHASE, qm.REASON, qm.VIEW, qm.JOIN

-- Where the place (net, address) of an item begins, and where the bytes for a new record end (fn/join.lua).
local PLACE, LAST = 45, 102

-- Flag of a place that was given up after the list of its draw was fixed: it keeps its number in the order.
local LATE = 1

-- View of a place that has no ticket to tell, for its owner.
function qm.view_place(R, p, rec, proof)
  local state, why = qm.place_state(R, p, rec)
  if state == T.WAITING then
    local marks = proof == 2 and 2 or 0
    return pack("<BBBxI4", V.SCHEDULED, REASON.SCHEDULED, marks, 0) .. sub(rec, 73, 88)
      .. pack("<I8I8", qm.joined_of(rec), 0), V.SCHEDULED
  end
  if state ~= T.EJECTED then return qm.view_gone(REASON.EXPIRED) end
  return pack(qm.VIEW_FORMAT, V.GONE, REASON.EJECTED, why == qm.WHY.PURGE and 1 or 0, 0, 0, 0, 0, 0, 0, 0), V.GONE
end

-- Notes that the holder of a place was seen, for the ticket too that he may have without knowing it.
function qm.place_seen(R, p, rec)
  if R.ds - qm.seen_of(rec) < 10 then return end
  qm.place_put(R, p, 4, pack("<I4", R.ds))
  local n = R.h.phase >= PHASE.DRAWING and qm.place_number(R, p) or 0
  if n > 0 then qm.ticket_put(R, n, 4, pack("<I4", R.ds)) end
end

-- Handle of the place whose owner's cookie has the digest `cookie`: as random as the cookie is, and telling nothing of it.
local function handle_of(cookie)
  local hex = sub(sha1hex("qm:handle\0" .. cookie), 1, 32)
  return (gsub(hex, "..", function(pair) return char(tonumber_(pair, 16)) end))
end

-- Gives the next place. `owner`: its record bytes of its owner (net u16, address 8, cookie, strict, loose 16 each); `ip`:
-- his readable address. Returns the seq to wait for and the view.
local function place_create(R, ip, owner)
  local h, pre, handle = R.h, qm.pre(R), handle_of(sub(owner, 11, 26))
  local p = h.places + 1
  h.places, h.now_joins, pre.live = p, h.now_joins + 1, pre.live + 1
  local seq = qm.fact(R, qm.FACT.PREJOINED, pack("<I4", p) .. ip .. handle .. owner)
  qm.place_room(R, p)
  local rec = pack("<BBBxI4I6", T.WAITING, 0, 0, R.ds, h.wall) .. owner .. handle .. "\0\0\0\0\0\0\0\0"
  qm.place_put(R, p, 0, rec)
  call("HSET", R.g .. "hx", sub(handle, 1, 8), p)
  call("HSET", R.g .. "o", sub(owner, 11, 18), "p" .. p)
  qm.place_change(R, "ip", owner, 1, 1)
  return seq, (qm.view_place(R, p, rec, 2))
end

-- Ends place p, which waits and has no ticket to tell. Returns the number that ends with it, or 0. The fact is the caller's.
function qm.place_finish(R, p, rec, state, why)
  local pre = qm.pre(R)
  local late = R.h.phase >= PHASE.DRAWING
  qm.place_put(R, p, 0, char(state, late and LATE or 0, why))
  pre.live = pre.live - 1
  qm.note_places_end(R)
  if R.h.phase < PHASE.DRAWN then qm.place_change(R, "ip", rec, 15, -1) end
  local n = late and qm.place_number(R, p) or 0
  if n > 0 then qm.finish(R, n, qm.ticket_get(R, n), state, why) end
  return n
end

-- What a join of a place's holder shows (`proof` of qm.prove), or nil and why he does not keep it.
function qm.place_keep(R, p, rec, proof)
  if proof == 0 then return nil, REASON.BAD_TOKEN end
  local state = qm.place_state(R, p, rec)
  if state == T.EJECTED then return nil, REASON.EJECTED end
  if state ~= T.WAITING then return nil, REASON.EXPIRED end
  qm.place_seen(R, p, rec)
  return (qm.view_place(R, p, rec, proof))
end

-- Answer to the join of a newcomer while the doors are closed (ENG-167); `item` as in fn/join.lua.
function qm.place_give(R, item, reason, line_max)
  local h = R.h
  if qm.place_refused(R, "ip", item, PLACE, h.pre_ip_cap) then
    return pack("<BBxxI4", J.PRE_IDENTITY_LIMIT, reason, 0) .. qm.view_gone(reason)
  end
  if qm.line_size(R) >= line_max then
    return qm.line_full(R, reason, line_max)
  end
  local seq, view = place_create(R, sub(item, 29, 44), sub(item, PLACE, LAST))
  return pack("<BBxxI4", J.CREATED, reason, seq) .. view
end

-- Drops everybody in the pre-queue (ENG-189): a mark, nothing is written per place. Those whose order is being drawn are
-- dropped by it and by the purge of the line, in which their numbers stand.
function qm.places_purge(R)
  if qm.places_held(R) == 0 then return end
  local pre = qm.pre(R)
  pre.purged, pre.live = R.h.places, 0
  qm.note_places_end(R)
  qm.places_clear(R, "ip")
end
