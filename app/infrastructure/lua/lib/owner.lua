-- Who presents a ticket (ENG-107). Only salted digests are compared here, never a secret, so a compare that takes
-- longer for a longer common prefix tells an attacker nothing he could use.
--
-- Every item begins: presented u8, flags u8 (ASK), cookies u8, door keys u8, gen u32, ticket u32, strict 16. At offset
-- `tail` (it differs by function) follow: loose 16, which proves something if ASK.LOOSE says so, the cookie digests, the
-- door-key digests, then the handle of 16 bytes if it is a pre-queue token that is presented (PRESENTED.HANDLE; the ticket
-- number is 0), and with ASK.FROM 16 bytes of the loose fingerprint by which a connector saw the visitor.

local byte, sub, unpack_
qm.bind(function() byte, sub, unpack_ = string.byte, string.sub, struct.unpack end)

-- Token state, generation and ticket number of an item.
function qm.item_token(item)
  return byte(item, 1), unpack_("<I4I4", item, 5)
end

-- 2 = owner by cookie, 1 = by fingerprint, 0 = not the owner.
function qm.prove(item, tail, rec)
  local _, flags, cookies = byte(item, 1, 3)
  if cookies > 0 then
    local own, at = sub(rec, 25, 40), tail + 16
    for _ = 1, cookies do
      if sub(item, at, at + 15) == own then return 2 end
      at = at + 16
    end
  end
  if sub(item, 13, 28) == sub(rec, 41, 56) then return 1 end
  if flags % 2 == 1 and sub(item, tail, tail + 15) == sub(rec, 57, 72) then return 1 end
  return 0
end

-- True when the item presents the door key whose digest is `key`.
function qm.has_door_key(item, tail, key)
  local _, _, cookies, doors = byte(item, 1, 4)
  local at = tail + 16 + cookies * 16
  for _ = 1, doors do
    if sub(item, at, at + 15) == key then return true end
    at = at + 16
  end
  return false
end

-- Handle that an item with PRESENTED.HANDLE brings.
function qm.item_handle(item, tail)
  local _, _, cookies, doors = byte(item, 1, 4)
  local at = tail + (1 + cookies + doors) * 16
  return sub(item, at, at + 15)
end

-- True when the item presents any door key.
function qm.has_any_door_key(item)
  return byte(item, 4) > 0
end

-- True when the item presents the door key of n's running session.
function qm.holds_session(R, n, rec, item, tail)
  return byte(rec, 1) == qm.T.ACTIVE and byte(item, 4) > 0 and qm.has_door_key(item, tail, qm.door_get(R, n).key)
end

-- True when the item's token names a running session that is this request's.
function qm.runs_session(R, item, tail)
  local presented, gen, n = qm.item_token(item)
  if presented < qm.PRESENTED.VALID or gen ~= R.h.gen then return false end
  if presented == qm.PRESENTED.HANDLE then n = qm.handle_find(R, item, tail) or 0 end
  if n < 1 or n > R.h.last_ticket then return false end
  local rec = qm.ticket_get(R, n)
  if not rec or byte(rec, 1) ~= qm.T.ACTIVE then return false end
  local door = qm.door_get(R, n)
  if R.ds >= qm.session_end(R.h, door) then return false end
  return qm.prove(item, tail, rec) > 0 or qm.has_door_key(item, tail, door.key)
end
