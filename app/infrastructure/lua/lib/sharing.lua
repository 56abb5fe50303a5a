-- Addresses from which one session is used (ENG-298): at most 16 in ten minutes. A session that only the address of the
-- join uses costs one compare. Any other makes an entry of hash `sa`: ticket number -> address 8 and last use u32 (ds)
-- of each; byte 7 of the door record says that there is one. Not journaled: after a rebuild a session begins anew.

local WINDOW, MOST, ENTRY = 6000, 16, 12

local call, sub, pack, unpack_, concat
qm.bind(function()
  call, sub, pack, unpack_, concat = redis.call, string.sub, struct.pack, struct.unpack, table.concat
end)

local function is_home(rec, address)
  return address == sub(rec, 17, 24)
end

-- Whether `address` is among the entries that are young enough, and the others of them.
local function others_of(R, data, address)
  local others, known = {}, false
  for at = 1, #data, ENTRY do
    local one = sub(data, at, at + 7)
    if R.ds - unpack_("<I4", data, at + 8) <= WINDOW then
      if one == address then known = true else others[#others + 1] = sub(data, at, at + ENTRY - 1) end
    end
  end
  return known, others
end

-- True when n's running session, whose door key the request has, may be used from `address` now (nil = visitors cannot be
-- told apart); notes that it is. `door`: its door record, changed in place.
function qm.session_shared(R, n, rec, door, address)
  if not address or door.roams == 0 and is_home(rec, address) then return true end
  local data
  if door.roams == 1 then
    data = call("HGET", R.g .. "sa", n) or ""
  else -- up to now it was used from the address of the join alone
    data = sub(rec, 17, 24) .. pack("<I4", door.used)
  end
  local known, others = others_of(R, data, address)
  if not known and #others >= MOST then return false end
  others[#others + 1] = address .. pack("<I4", R.ds)
  call("HSET", R.g .. "sa", n, concat(others))
  if door.roams == 0 then
    door.roams = 1
    qm.door_roams(R, n, 1)
  end
  return true
end

-- True when session_shared would say so of a key that comes from `address`; notes nothing.
function qm.session_is_open_to(R, n, door, address)
  if door.roams == 0 then return true end -- one address up to now
  local known, others = others_of(R, call("HGET", R.g .. "sa", n) or "", address)
  return known or #others < MOST
end

-- Begins the addresses of a session that n's holder enters from `address`; the door record is the caller's.
function qm.session_first(R, n, rec, door, address)
  door.roams = 0
  if not address or is_home(rec, address) then return end
  door.roams = 1
  call("HSET", R.g .. "sa", n, address .. pack("<I4", R.ds))
end

-- Forgets them: the session is over.
function qm.session_forget(R, n)
  call("HDEL", R.g .. "sa", n)
end
