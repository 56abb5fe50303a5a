-- name: journal_append
-- Append the facts of many rooms in one step. $1…$5: one element per room (room, gen, epoch, base, last);
-- $6…$12: one per fact (number of its room in $1…$5 from 1, seq, type, lv, at, ip, body). A room takes part only when
-- its head stands exactly at (epoch, base), or when it has none and base is 0; the others drop out. Heads are locked in
-- one order, so that two writers never wait for each other in a circle. Returns the numbers of the rooms that moved.
WITH batch AS (
    SELECT b.room, b.gen, b.epoch, b.base, b.last, b.i::integer AS i
    FROM unnest($1::text[], $2::integer[], $3::integer[], $4::bigint[], $5::bigint[])
        WITH ORDINALITY AS b(room, gen, epoch, base, last, i)
),
held AS MATERIALIZED (
    SELECT h.room, h.gen, b.last, b.i
    FROM room_heads h
    JOIN batch b ON b.room = h.room AND b.gen = h.gen AND b.epoch = h.epoch AND b.base = h.seq
    ORDER BY h.room, h.gen
    FOR UPDATE OF h
),
moved AS (
    UPDATE room_heads h
    SET seq = held.last
    FROM held
    WHERE h.room = held.room AND h.gen = held.gen
    RETURNING held.i
),
made AS (
    INSERT INTO room_heads (room, gen, epoch, seq)
    SELECT b.room, b.gen, b.epoch, b.last
    FROM batch b
    WHERE b.base = 0
    ORDER BY b.room, b.gen
    ON CONFLICT (room, gen) DO NOTHING
    RETURNING room, gen
),
stored AS (
    SELECT moved.i
    FROM moved
    UNION ALL
    SELECT b.i
    FROM made
    JOIN batch b ON b.room = made.room AND b.gen = made.gen
),
written AS (
    INSERT INTO events (room, gen, seq, type, lv, at, ip, body)
    SELECT b.room, b.gen, f.seq, f.type, f.lv, f.at, f.ip, f.body
    FROM unnest($6::integer[], $7::bigint[], $8::smallint[], $9::smallint[], $10::bigint[], $11::bytea[], $12::bytea[])
        AS f(i, seq, type, lv, at, ip, body)
    JOIN batch b ON b.i = f.i
    JOIN stored s ON s.i = b.i
)
SELECT i
FROM stored;

-- name: journal_heads
-- Heads of the rooms and generations named.
SELECT h.room, h.gen, h.epoch, h.seq
FROM room_heads h
JOIN unnest($1::text[], $2::integer[]) AS q(room, gen) ON q.room = h.room AND q.gen = h.gen;

-- name: journal_current_heads
-- Head of the latest generation of each room, deleted ones included; $1: room, or NULL for all.
SELECT h.room, h.gen, h.epoch, h.seq, r.deleted_at IS NOT NULL AS deleted
FROM rooms r
JOIN room_heads h ON h.room = r.room AND h.gen = r.gen
WHERE $1::text IS NULL OR r.room = $1;

-- name: journal_slice
-- Facts of one room and generation after $3, up to and including $4, at most $5.
SELECT seq, type, lv, at, body
FROM events
WHERE room = $1 AND gen = $2 AND seq > $3 AND seq <= $4
ORDER BY seq
LIMIT $5;

-- name: journal_slice_with_ip
-- The same with the readable address, for comparing facts that were already stored.
SELECT seq, type, lv, at, ip, body
FROM events
WHERE room = $1 AND gen = $2 AND seq > $3 AND seq <= $4
ORDER BY seq;

-- name: journal_take_epoch
-- Begin a rebuild: from now on no live state of an older epoch can append to this room.
UPDATE room_heads
SET epoch = epoch + 1
WHERE room = $1 AND gen = $2
RETURNING epoch, seq;

-- name: journal_new_life
-- The live states of these rooms go on in another life of the live store: raise their epochs, so that nothing the life
-- before left behind can be stored. $1…$4: room, gen, epoch, seq of each; a room whose head stands elsewhere is left out.
WITH held AS MATERIALIZED (
    SELECT h.room, h.gen
    FROM room_heads h
    JOIN unnest($1::text[], $2::integer[], $3::integer[], $4::bigint[]) AS q(room, gen, epoch, seq)
        ON q.room = h.room AND q.gen = h.gen AND q.epoch = h.epoch AND q.seq = h.seq
    ORDER BY h.room, h.gen
    FOR UPDATE OF h
)
UPDATE room_heads h
SET epoch = h.epoch + 1
FROM held
WHERE h.room = held.room AND h.gen = held.gen
RETURNING h.room;

-- name: journal_rebuild_lock_many
-- Those of $1 that nobody else rebuilds or compares; their locks are held from now on.
SELECT q.room
FROM unnest($1::text[]) AS q(room)
WHERE pg_try_advisory_lock(hashtextextended('qm:rebuild:' || current_schema() || ':' || q.room, 0));

-- name: journal_rebuild_unlock_many
-- The comparison of these rooms is over.
SELECT count(pg_advisory_unlock(hashtextextended('qm:rebuild:' || current_schema() || ':' || q.room, 0)))
FROM unnest($1::text[]) AS q(room);

-- name: journal_last_at
-- Recorded time of the last fact.
SELECT at
FROM events
WHERE room = $1 AND gen = $2 AND seq = $3;

-- name: journal_rebuild_lock
-- One rebuilder per room and schema; ends with the session at the latest.
SELECT pg_try_advisory_lock(hashtextextended('qm:rebuild:' || current_schema() || ':' || $1::text, 0));

-- name: journal_rebuild_unlock
-- The rebuild of this room is over.
SELECT pg_advisory_unlock(hashtextextended('qm:rebuild:' || current_schema() || ':' || $1::text, 0));

-- name: journal_probe
-- A row like that of a fact, of a room that cannot exist; the caller takes it back. Its number is the connection's own,
-- so that two probes never wait for each other.
INSERT INTO events (room, gen, seq, type, lv, at, ip, body)
VALUES ('', 0, pg_backend_pid(), 0, 0, 0, NULL, '');
