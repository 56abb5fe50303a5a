-- Purpose: Writes a piece of a rebuilt room, unless the rebuild was overtaken.
-- Keys: header
-- Args: epoch of the rebuild · then writes: kind, number of values, values. Kinds: t, d, h (chunk, bytes) · r, lp,
--   pn, hm, c, hc (byte offset, bytes) · o, i, in, u, x0, x1, hx, ip, ipn, f (field, value, …) · e, ut (member, score, …) ·
--   w (ticket, …) · pu, vi, vip (element, …)
-- Returns: code, written (0 = overtaken)
-- Errors: none
-- Facts: none
-- Cost: O(bytes and members)

local put = {}

function put.t(g, kind, values)
  redis.call("SET", g .. kind .. values[1], values[2])
end
put.d = put.t
put.h = put.t

function put.r(g, kind, values)
  redis.call("SETRANGE", g .. kind, values[1], values[2])
end

put.pn = put.r
put.hm = put.r
put.c = put.r
put.hc = put.r
put.lp = put.r

function put.o(g, kind, values)
  redis.call("HSET", g .. kind, unpack(values))
end
put.i = put.o
put["in"] = put.o
put.f = put.o
put.hx = put.o
put.ip = put.o
put.ipn = put.o
put.u = put.o

local CHURN_SEC = 1300 -- as in lib/churn.lua

function put.x0(g, kind, values)
  put.o(g, kind, values)
  redis.call("EXPIRE", g .. kind, CHURN_SEC)
end
put.x1 = put.x0

function put.e(g, kind, values)
  local scored = {}
  for i = 1, #values, 2 do scored[i], scored[i + 1] = values[i + 1], values[i] end
  redis.call("ZADD", g .. kind, unpack(scored))
end

put.ut = put.e

function put.w(g, kind, values)
  local scored = {}
  for i = 1, #values do scored[2 * i - 1], scored[2 * i] = values[i], values[i] end
  redis.call("ZADD", g .. kind, unpack(scored))
end

function put.pu(g, kind, values)
  redis.call("RPUSH", g .. kind, unpack(values))
end
put.vi = put.pu
put.vip = put.pu

qm.fn("rebuild_put", {}, function(keys, args)
  local p = keys[1]:sub(1, -2)
  local claim = redis.call("HMGET", p .. "rb", "epoch", "gen")
  if claim[1] ~= args[1] then return { qm.CODE.OK, 0 } end
  local g, at = p .. claim[2] .. ":", 2
  while at <= #args do
    local kind, count, values = args[at], tonumber(args[at + 1]), {}
    for i = 1, count do values[i] = args[at + 1 + i] end
    if count > 0 then put[kind](g, kind, values) end
    at = at + 2 + count
  end
  return { qm.CODE.OK, 1 }
end)
