-- Schedule and opening of the doors (ENG-168 … ENG-184): the list is fixed and the seed with it in one step, the order
-- follows from them (domain/draw.py) and is put in place in slices; nothing of it is told before all of it is journaled.

local pack, rep, max
qm.bind(function() pack, rep, max = struct.pack, string.rep, math.max end)

local PHASE, FACT = qm.PHASE, qm.FACT
local ALGORITHM = 1

-- SHA-256 of nothing: the order of an empty pre-queue.
local NO_ORDER = "\227\176\196\66\152\252\28\20\154\251\244\200\153\111\185\36\39\174\65\228\100\155\147\76\164\149\153\27"
  .. "\120\82\184\85"

-- Applies a new opening time (wall ms, 0 = none). Returns how many stand in the pre-queue. Not while a draw runs.
function qm.schedule(R, opens_at)
  local h, pre = R.h, qm.pre(R)
  h.drawn_at = 0
  if opens_at > 0 then
    if h.phase == PHASE.NONE then pre.base, pre.live = h.places, 0 end
    h.phase, h.opens_at = PHASE.OPEN, opens_at
  elseif h.phase > 0 and pre.live > 0 then
    h.phase, h.opens_at = PHASE.CALLED, h.wall
  else
    h.phase, h.opens_at = PHASE.NONE, 0
  end
  return pre.live
end

-- True when the doors are to open now: by this clock and by that of the acting instance (`now`, wall ms; ENG-299).
local function is_due(h, now)
  return h.phase == PHASE.CALLED or (h.phase == PHASE.OPEN and h.opens_at <= h.last_time and h.opens_at <= now)
end

-- Opens the doors when it is time: from then on new joins stand behind all places of the pre-queue. `seed`: 32 random
-- bytes made for this call.
function qm.doors(R, now, seed)
  local h = R.h
  if not is_due(h, now) then return end
  local pre = qm.pre(R)
  pre.base = max(pre.base, pre.purged) -- those up to here take no part; who is purged from now on was in the list
  pre.first, pre.count, pre.done, pre.seed = h.last_ticket + 1, pre.live, 0, seed
  h.phase, h.last_ticket = PHASE.DRAWING, h.last_ticket + pre.count
  -- Joins take the numbers behind at once, so the chunk they begin in has to be there.
  qm.ticket_room(R, h.last_ticket + 1, true)
  qm.fact(R, FACT.DRAW_BEGUN, pack("<BI8I4I4I4", ALGORITHM, h.opens_at, h.places, pre.first, pre.count) .. seed)
  if pre.count == 0 then qm.draw_close(R, 0, NO_ORDER) end
end

-- Closes the draw: the whole order is in place. Returns the seq whose commit reveals it.
function qm.draw_close(R, identities, digest)
  local h, pre = R.h, qm.pre(R)
  h.phase, h.drawn_at = PHASE.DRAWN, h.wall
  qm.places_clear(R, "ip")
  qm.note_places_end(R)
  pre.draw_seq = qm.fact(R, FACT.DRAWN,
    pack("<BI8I4I4I4", ALGORITHM, h.opens_at, pre.first, pre.count, identities) .. pre.seed .. digest)
  return pre.draw_seq
end

-- Ends the schedule once the closing fact is in the journal: from now on everybody is told his number (ENG-180).
function qm.draw_reveal(R)
  local h, pre = R.h, qm.pre(R)
  if h.committed >= pre.draw_seq then
    h.phase, pre.base, pre.live = PHASE.NONE, h.places, 0
    pre.done, pre.draw_seq, pre.seed = 0, 0, rep("\0", 32)
  end
  qm.pre_save(R)
end
