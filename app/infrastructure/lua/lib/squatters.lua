-- Squatters (ENG-297): where slots per address are bounded, an address that lets the slots of its told passes go unused
-- gets claim windows of 15 s. Two hashes `y` in turns of an hour (lib/turns.lua): address -> entries of minute u32, told
-- passes u16, unused ones u16, old to new. Told marks are no fact, so a rebuild forgets all of it.

local TURN_SEC, LIFE_SEC = 3600, 7400
local WINDOW_MIN, ENTRY = 60, 8
local LEAST = 4
local SHORT_DS = 150

local call, sub, byte, band, pack, unpack_, floor, min
qm.bind(function()
  call, sub, byte, band = redis.call, string.sub, string.byte, bit.band
  pack, unpack_, floor, min = struct.pack, struct.unpack, math.floor, math.min
end)

local FLAG = qm.FLAG
local TOLD_SLOT = FLAG.TOLD + FLAG.SLOT

-- Notes how a pass with a slot ended whose holder was told of it; other passes tell nothing. `rec`: its record before.
function qm.pass_judged(R, rec, is_unused)
  if R.h.session_ip_cap == 0 or band(byte(rec, 2), TOLD_SLOT) ~= TOLD_SLOT then return end
  local judged = R.judged
  if not judged then
    judged = {}
    R.judged = judged
  end
  judged[#judged + 1] = { sub(rec, 17, 24), is_unused and 1 or 0 }
end

-- Entries of `list` of the hour before `minute`, and the sums of told and unused passes in them.
local function live(list, minute)
  local from, told, unused = 1, 0, 0
  for at = 1, #list, ENTRY do
    local when, of_told, of_unused = unpack_("<I4I2I2", list, at)
    if when <= minute - WINDOW_MIN then
      from = at + ENTRY
    else
      told, unused = told + of_told, unused + of_unused
    end
  end
  return sub(list, from), told, unused
end

local function with_one_more(list, minute, unused)
  local last, when, of_told, of_unused = #list - ENTRY + 1, nil, 0, 0
  if last > 0 then when, of_told, of_unused = unpack_("<I4I2I2", list, last) end
  if when == minute then
    list = sub(list, 1, last - 1)
  else
    of_told, of_unused = 0, 0
  end
  return list .. pack("<I4I2I2", minute, min(of_told + 1, 65535), min(of_unused + unused, 65535))
end

local function turn_of(h)
  return floor(h.mono / 1000 / TURN_SEC)
end

-- Writes what was noted.
function qm.squatters_save(R)
  local judged, addresses, minute = R.judged, {}, floor(R.h.mono / 60000)
  for i = 1, #judged do addresses[i] = judged[i][1] end
  local lists, is_begun = qm.turns_read(R, "y", turn_of(R.h), addresses)
  for i = 1, #judged do
    local address = addresses[i]
    lists[address] = with_one_more(live(lists[address], minute), minute, judged[i][2])
  end
  qm.turns_save(R, "y", turn_of(R.h), lists, is_begun, LIFE_SEC)
end

local function is_squatter(R, address)
  local known = R.squatters
  if not known then
    known = { any = call("EXISTS", R.g .. "y0", R.g .. "y1") > 0 }
    R.squatters = known
  end
  if not known.any then return false end
  local found = known[address]
  if found == nil then
    local _, told, unused = live(qm.turns_read(R, "y", turn_of(R.h), { address })[address], floor(R.h.mono / 60000))
    found = unused >= LEAST and unused * 2 > told
    known[address] = found
  end
  return found
end

-- End of a short claim window that begins now.
function qm.short_claim_end(R)
  return R.ds + min(SHORT_DS, R.h.passed_ttl * 10)
end

-- True when the address that begins at `at` in `data` gets short claim windows.
function qm.claims_shortly(R, data, at)
  return R.h.session_ip_cap > 0 and is_squatter(R, sub(data, at, at + 7))
end
