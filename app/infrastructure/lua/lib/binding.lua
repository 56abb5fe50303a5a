-- What a ticket is bound to changes with its owner: his fingerprints after a move to another network (ENG-108), and the
-- one further loose fingerprint by which a connector sees him (hash `f`: ticket number -> 16 bytes, ENG-110).

-- Times a minute that one ticket is bound anew, so that an owner whose network changes with each request does not fill
-- the journal. Byte 3 of the ticket record: minute of the last time modulo 64, times 4, and how many times in it.
local A_MINUTE = 3

local call, byte, sub, char, pack, floor
qm.bind(function()
  call, byte, sub, char, pack, floor =
    redis.call, string.byte, string.sub, string.char, struct.pack, math.floor
end)

local HAS_FROM, FROM, BIND = qm.FLAG.HAS_FROM, qm.ASK.FROM, qm.ASK.BIND
local HANDLE, PHASE = qm.PRESENTED.HANDLE, qm.PHASE

-- True when ticket record `rec` has a further loose fingerprint.
function qm.has_from(rec)
  return byte(rec, 2) % (2 * HAS_FROM) >= HAS_FROM
end

-- The further loose fingerprint of n, or "".
function qm.from_of(R, n, rec)
  return qm.has_from(rec) and call("HGET", R.g .. "f", n) or ""
end

-- That of an item whose tail begins at `tail`, or "".
function qm.item_from(item, tail)
  local presented, flags, cookies, doors = byte(item, 1, 4)
  if flags % (2 * FROM) < FROM then return "" end
  local at = tail + (1 + cookies + doors + (presented == HANDLE and 1 or 0)) * 16
  return sub(item, at, at + 15)
end

-- Gives n, whose flags are the caller's, the further fingerprint `from`.
function qm.from_put(R, n, from)
  call("HSET", R.g .. "f", n, from)
end

-- Takes it from n, which is over.
function qm.from_drop(R, n)
  call("HDEL", R.g .. "f", n)
end

-- The new byte 3 of `rec` when it may be bound anew now, else nil.
local function may_bind(R, rec)
  local minute, mark = floor(R.ds / 600) % 64, byte(rec, 4)
  local times = floor(mark / 4) == minute and mark % 4 or 0
  return times < A_MINUTE and minute * 4 + times + 1 or nil
end

-- True for a request that shows where its owner is now, and brings nothing that somebody else may have planted.
local function asks_for_it(item)
  return byte(item, 2) % (2 * BIND) >= BIND
end

-- Binds live ticket n to what its owner brings. `proof`: 2 = proved by the cookie, so that his fingerprints count.
-- `from`: further fingerprint that came with a join, or "". Returns its ticket record as it is now.
function qm.bind_owner(R, n, rec, proof, item, tail, from)
  if not asks_for_it(item) then return rec end
  local old, flags = sub(rec, 41, 72), byte(rec, 2)
  local prints = proof == 2 and sub(item, 13, 28) .. sub(item, tail, tail + 15) or old
  local is_new = from ~= "" and from ~= qm.from_of(R, n, rec)
  if prints == old and not is_new then return rec end
  local mark = may_bind(R, rec)
  if not mark then return rec end
  if is_new then
    if not qm.has_from(rec) then flags = flags + HAS_FROM end
    qm.from_put(R, n, from)
  end
  local head = char(flags) .. sub(rec, 3, 3) .. char(mark)
  qm.ticket_put(R, n, 1, head)
  if prints ~= old then qm.ticket_put(R, n, 40, prints) end
  qm.fact(R, qm.FACT.OWNER_REBOUND, pack("<I4", n) .. prints .. (is_new and from or ""))
  return sub(rec, 1, 1) .. head .. sub(rec, 5, 40) .. prints
end

-- The same for place p of the pre-queue, whose owner was proved by the cookie; once its draw runs it stays as it is.
function qm.bind_place(R, p, rec, item, tail)
  if not asks_for_it(item) then return end
  local prints = sub(item, 13, 28) .. sub(item, tail, tail + 15)
  local phase = R.h.phase
  if prints == sub(rec, 41, 72) or (phase ~= PHASE.OPEN and phase ~= PHASE.CALLED) then return end
  if qm.place_state(R, p, rec) ~= qm.T.WAITING then return end
  local mark = may_bind(R, rec)
  if not mark then return end
  qm.place_put(R, p, 3, char(mark))
  qm.place_put(R, p, 40, prints)
  qm.fact(R, qm.FACT.OWNER_REBOUND, pack("<I4", 0) .. prints .. pack("<I4", p))
end
