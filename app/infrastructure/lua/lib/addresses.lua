-- Places per address, and per /56 and /48 of IPv6 (ENG-160 ... ENG-166, ENG-295). Changes are gathered in books and
-- written once, when the room is closed. A book has the name of its hash: `i` = waiting tickets.
--
-- A place is ten bytes of a ticket record (layout.py): net u16 (0 for IPv4, which has no networks), then the address.

local call, byte, sub
qm.bind(function() call, byte, sub = redis.call, string.byte, string.sub end)

local function book_of(R, name)
  local book = R.books[name]
  if not book then
    book = { counts = {}, changes = {}, nets = nil, net_changes = nil }
    R.books[name] = book
  end
  return book
end

-- Reads the counts for the places that begin at `at` in items[first] and those after it: one command for addresses, one
-- for networks if there are any.
function qm.places_load(R, name, items, first, at)
  if #items < first then return end
  local book, addresses, keys = book_of(R, name), {}, {}
  for i = first, #items do
    local item = items[i]
    addresses[i - first + 1] = sub(item, at + 2, at + 9)
    local low, high = byte(item, at, at + 1)
    if low + high > 0 then keys[#keys + 1] = sub(item, at + 2, at + 5) end
  end
  qm.hash_counts(R.g .. name, addresses, book.counts)
  if #keys > 0 then book.nets = qm.nets_load(R, name, keys) end
end

-- Places of the address of the loaded place at `at` in `data`.
function qm.place_count(R, name, data, at)
  local book, address = R.books[name], sub(data, at + 2, at + 9)
  return book.counts[address] + (book.changes[address] or 0)
end

-- True when the address of the loaded place at `at` in `data`, or a network of it, holds all that `cap` (0 = none) allows.
function qm.place_refused(R, name, data, at, cap)
  if cap == 0 then return qm.churn_refused(R, name, data, at) end
  if qm.place_count(R, name, data, at) >= cap then return true end
  local low, high = byte(data, at, at + 1)
  return low + high > 0 and qm.net_refused(R.books[name], sub(data, at + 2, at + 5), low + high * 256, cap)
end

-- Notes `by` (1 or -1) places for the place that begins at `at` in `data`.
function qm.place_change(R, name, data, at, by)
  local book, address = book_of(R, name), sub(data, at + 2, at + 9)
  book.changes[address] = (book.changes[address] or 0) + by
  local low, high = byte(data, at, at + 1)
  if low + high > 0 then qm.net_change(book, sub(address, 1, 4), low + high * 256, by) end
end

-- Forgets every count of a book: nobody holds a place any more.
function qm.places_clear(R, name)
  call("UNLINK", R.g .. name, R.g .. name .. "n", R.g .. "v" .. name)
  R.books[name] = nil
end

local function save_addresses(R, name, book)
  local unknown = {}
  for address in pairs(book.changes) do
    if not book.counts[address] then unknown[#unknown + 1] = address end
  end
  local key, set, dropped = R.g .. name, {}, {}
  qm.hash_counts(key, unknown, book.counts)
  for address, by in pairs(book.changes) do
    local count = book.counts[address] + by
    if by ~= 0 and count > 0 then
      set[#set + 1] = address
      set[#set + 1] = count
    elseif by ~= 0 then
      dropped[#dropped + 1] = address
    end
  end
  qm.hash_set(key, set)
  qm.hash_drop(key, dropped)
end

-- Writes the noted changes of all books.
function qm.places_save(R)
  if R.left then qm.churn_count(R) end
  for name, book in pairs(R.books) do
    if next(book.changes) then save_addresses(R, name, book) end
    if book.net_changes then qm.nets_save(R, name, book) end
  end
end
