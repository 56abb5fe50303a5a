-- Numbers that cross the border to Python, late binding, and registration of functions.
--
-- While a library is loaded, Valkey offers neither redis.call nor string nor struct. A file that wants them as locals
-- (a hot path does: a local is three times cheaper than a field of a global table) appends a binder; all binders run
-- at the first call. Nothing of a room may be kept between calls: Lua variables are not replicated.

qm.LAYOUT = 1
qm.CHUNK = 1024
qm.TICKET_BYTES = 72
qm.DOOR_BYTES = 48
qm.PLACE_BYTES = 96

-- Names of a generation's keys besides its chunks of records; they go when it ends and when it is rebuilt.
qm.OF_GENERATION = {
  "o", "i", "in", "vi", "vip", "x0", "x1", "y0", "y1", "r", "e", "w", "wb", "u", "ut", "fl", "pu", "a0", "a1", "hx", "hc",
  "ip", "ipn", "pn", "hm", "c", "fs", "f", "sa", "lp", "lt",
}
-- Those of its statistics and of addresses left by visitors, which a rebuild keeps when they are there.
qm.OF_STATISTICS = { "n", "s", "sh", "em", "ez", "er", "ch" }

-- First element of every answer. RoomCode in engine_pack.py is the same table.
qm.CODE = { OK = 0, NOHEADER = 1, NOROOM = 2, STALE = 3, FENCED = 4, BUSY = 5, CONFLICT = 6 }

-- TicketState, RoomState, Presented, Reason, ViewState, JoinCode, Verdict of engine_results.py.
qm.T = { NONE = 0, WAITING = 1, PASSED = 2, ACTIVE = 3, EXPIRED = 4, EJECTED = 5, WITHDRAWN = 6, PREQUEUED = 7 }
-- Phase of domain/layout.py: how far the opening of the doors is.
qm.PHASE = { NONE = 0, OPEN = 1, CALLED = 2, DRAWING = 3, DRAWN = 4 }
qm.S = { ACTIVE = 0, PAUSED = 1, BYPASS = 2, SCHEDULED = 3 }
qm.PRESENTED = { NONE = 0, REFUSED = 1, VALID = 2, HANDLE = 3 }
qm.REASON = {
  NONE = 0, NEW = 1, WAITING = 2, SCHEDULED = 3, PAUSED = 4, EXPIRED = 5, EJECTED = 6, STALE_GENERATION = 7,
  AT_CAPACITY = 8, SESSION_ELSEWHERE = 9, BAD_TOKEN = 10, RECLAIMED = 11,
}
qm.VIEW = {
  WAITING = 1, PAUSED = 2, SCHEDULED = 3, PASSED = 4, AT_CAPACITY = 5, ACTIVE = 6, BYPASS = 7, GONE = 8,
}
qm.JOIN = { EXISTING = 0, CREATED = 1, BYPASS = 2, IDENTITY_LIMIT = 3, LINE_FULL = 4, PRE_IDENTITY_LIMIT = 5, BARRED = 6 }
qm.VERDICT = { QUEUE = 0, BYPASS = 1, NOT_TARGETED = 2, SESSION = 3, ADMITTED = 4 }

-- Flag, Why, Released, PromotedBy of domain/layout.py, domain/ticket_state.py and domain/facts_of_passes.py.
qm.FLAG = { SLOT = 1, PAID = 2, TOLD = 4, AT_DOOR = 8, FROM_PRE_QUEUE = 16, ADMITTED_ONCE = 32, HAS_FROM = 64, WASTED = 128 }
qm.WHY = { NONE = 0, PASS_OVER = 1, SESSION_IDLE = 2, SESSION_MAX = 3, LEFT = 4, EJECTED = 5, PURGE = 6 }
qm.RELEASED = { CLAIM_OVER = 1, ABSENT = 2 }
qm.BY = { TICK = 1, JOIN = 2, FLUSH = 3 }

-- Flag byte of an item: what the caller wants of it.
qm.ASK = { LOOSE = 1, TOLD = 2, SEEN = 4, COVERED = 8, BIND = 16, FROM = 32, ALIKE = 64, BARRED = 128 }

local binders, bound = {}, false

-- Runs `binder` once, at the first call of any function.
function qm.bind(binder)
  binders[#binders + 1] = binder
end

-- Registers `callback(keys, args)` as qm_<hash>_<name>. `flags`: see "Script flags" of the Valkey manual.
function qm.fn(name, flags, callback)
  server.register_function{
    function_name = qm.NAME .. "_" .. name,
    flags = flags,
    callback = function(keys, args)
      if not bound then
        bound = true
        for i = 1, #binders do binders[i]() end
      end
      return callback(keys, args)
    end,
  }
end
