-- Closing a room: everything that a call has gathered is written, the facts last, then the header.

local call, unpack_table, concat
qm.bind(function() call, unpack_table, concat = redis.call, unpack, table.concat end)

local function save_facts(R)
  local facts = R.facts
  for from = 1, #facts, 1000 do
    local last = from + 999
    if last > #facts then last = #facts end
    call("RPUSH", R.p .. "l", unpack_table(facts, from, last))
  end
end

-- Wakes the drainer. Only when the outbox was empty: a drainer that has anything left pulls until nothing is.
local function poke(R)
  local prefix, room = qm.key_parts(R.key)
  call("PUBLISH", prefix .. "poke", room)
end

-- Writes ticket records `records` of consecutive numbers from `first` on, one command a chunk.
function qm.records_save(R, first, records)
  local from = 1
  while from <= #records do
    local n = first + from - 1
    local _, i = qm.place(n)
    local last = from + qm.CHUNK - i - 1
    if last > #records then last = #records end
    qm.ticket_room(R, n)
    qm.ticket_put(R, n, 0, concat(records, "", from, last))
    from = last + 1
  end
end

-- Saves R. Nothing of it may be used afterwards.
function qm.room_close(R)
  local h = R.h
  if R.seconds then qm.seconds_save(R) end
  if next(R.books) then qm.places_save(R) end
  if R.slots then qm.slots_save(R) end
  local before = R.depth_before
  if before and (qm.depth(R) < before or h.active < R.active_before) then
    qm.hour_peak(qm.hour_open(R), before, R.active_before)
  end
  if R.ring then qm.ring_save(R) end
  if R.waits then qm.waits_save(R) end
  if R.hour then qm.hour_save(R) end
  if R.judged then qm.squatters_save(R) end
  if qm.waiting(h) == 0 then
    h.line_since = 0
  elseif h.line_since == 0 then
    h.line_since = h.mono > 0 and h.mono or 1
  end
  if h.auto_joins > 0 then qm.auto_disturb(h) end
  if R.pre then qm.pre_save(R) end
  if R.ended then qm.ends_save(R) end
  save_facts(R)
  call("SET", R.key, qm.header_pack(h))
  if #R.facts > 0 and R.seq_before == h.committed then poke(R) end
end
