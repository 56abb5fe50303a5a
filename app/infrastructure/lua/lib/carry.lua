-- What a join of an owner goes on with: his ticket, his session taken back from another browser, his place in the
-- pre-queue. `item`: see fn/join.lua; `tail`: see owner.lua.

local byte, sub
qm.bind(function() byte, sub = string.byte, string.sub end)

local T, REASON, V = qm.T, qm.REASON, qm.VIEW
local ADDRESS = 47 -- where the digest of the visitor's address begins in an item of join.lua

-- Seq that an answer about a pass which was taken back has to wait for (ENG-158).
local function reclaim_seq(R, n, rec)
  if not qm.is_reclaimed(rec) then return 0 end
  local seq = qm.door_get(R, n).seq
  return seq > R.h.committed and seq or 0
end

-- True when the request has the key of n's session and may use it: from an address too many (ENG-298) it counts for
-- nothing, so that the owner who keeps being refused at the door takes his session back.
local function holds_key(R, n, door, item, tail)
  return qm.has_door_key(item, tail, door.key) and qm.session_is_open_to(R, n, door, sub(item, ADDRESS, ADDRESS + 7))
end

-- The view of ticket n when it is live and this request's, what to say of it (RECLAIMED or none), and the seq to wait
-- for. Else nil and why not.
function qm.carry_on(R, n, rec, proof, item, tail)
  local state = byte(rec, 1)
  if state == T.EJECTED then return nil, REASON.EJECTED end
  if not qm.is_live(state) then return nil, REASON.EXPIRED end
  local door = state == T.ACTIVE and qm.door_get(R, n)
  local holds = door and holds_key(R, n, door, item, tail)
  if proof == 0 and not holds then return nil, REASON.BAD_TOKEN end
  if proof > 0 then rec = qm.bind_owner(R, n, rec, proof, item, tail, qm.item_from(item, tail)) end
  local why = 0
  if proof == 2 and door and not holds and R.ds < qm.session_end(R.h, door) then
    rec, why = qm.reclaim(R, n, rec, door), REASON.RECLAIMED
  elseif not door then
    rec = qm.mark_seen(R, n, rec)
  end
  local view, shown = qm.view(R, n, rec, proof, holds, false, true)
  if shown == V.GONE then return nil, byte(view, 2) end
  return view, why, reclaim_seq(R, n, rec)
end

-- The view of place p of the pre-queue when it is this request's, or nil and why it is not kept.
function qm.carry_place(R, p, rec, proof, item, tail)
  if proof == 2 then qm.bind_place(R, p, rec, item, tail) end
  local view, why = qm.place_keep(R, p, rec, proof)
  return view, view and 0 or why, 0
end
