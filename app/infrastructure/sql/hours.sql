-- name: hours_keep
-- Write records of hours; one that is there is replaced, unless more of the hour is covered there.
INSERT INTO room_hours (
    room, gen, hour, since, covered_ms, joins, passes, peak_depth, peak_active, samples, depth_sum, blocked, warned,
    waits, wait_sum_ms, wait_max_ms, kept
)
SELECT *
FROM unnest(
    $1::text[], $2::integer[], $3::integer[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
    $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[],
    $16::bigint[], $17::bytea[]
)
ON CONFLICT (room, gen, hour, since) DO UPDATE
SET covered_ms = EXCLUDED.covered_ms,
    joins = EXCLUDED.joins,
    passes = EXCLUDED.passes,
    peak_depth = EXCLUDED.peak_depth,
    peak_active = EXCLUDED.peak_active,
    samples = EXCLUDED.samples,
    depth_sum = EXCLUDED.depth_sum,
    blocked = EXCLUDED.blocked,
    warned = EXCLUDED.warned,
    waits = EXCLUDED.waits,
    wait_sum_ms = EXCLUDED.wait_sum_ms,
    wait_max_ms = EXCLUDED.wait_max_ms,
    kept = EXCLUDED.kept
WHERE room_hours.covered_ms <= EXCLUDED.covered_ms;

-- name: hours_read
-- Records of the hours from $1 up to and without $2, of the rooms in $3 (NULL = all), in order of room and hour.
SELECT room, gen, hour, since, covered_ms, joins, passes, peak_depth, peak_active, samples, depth_sum, blocked, warned,
    waits, wait_sum_ms, wait_max_ms, kept
FROM room_hours
WHERE hour >= $1 AND hour < $2 AND ($3::text[] IS NULL OR room = ANY($3::text[]))
ORDER BY room, hour, gen, since;

-- name: hours_latest
-- The record of the latest hour, with every column that hours_read names.
SELECT room, gen, hour, since, covered_ms, joins, passes, peak_depth, peak_active, samples, depth_sum, blocked, warned,
    waits, wait_sum_ms, wait_max_ms, kept
FROM room_hours
ORDER BY hour DESC
LIMIT 1;

-- name: hours_rooms
-- The next $5 rooms behind $4 with records of the hours from $1 up to and without $2, of those in $3 (NULL = all).
SELECT DISTINCT room
FROM room_hours
WHERE hour >= $1 AND hour < $2 AND ($3::text[] IS NULL OR room = ANY($3::text[])) AND room > $4
ORDER BY room
LIMIT $5;

-- name: hours_count
-- Number of rooms' buckets of $3 hours that have records from $1 up to and without $2, of the rooms in $4 (NULL = all);
-- counted up to $5 + 1.
SELECT count(*)
FROM (
    SELECT 1
    FROM room_hours
    WHERE hour >= $1 AND hour < $2 AND ($4::text[] IS NULL OR room = ANY($4::text[]))
    GROUP BY room, hour / $3::integer
    LIMIT $5::bigint + 1
) AS found;

-- name: hours_first
-- The oldest hour that is kept.
SELECT min(hour)
FROM room_hours;

-- name: hours_lives
-- When each of these rooms and generations began, and when it ended (NULL = it lives).
SELECT p.room, p.gen, began.at AS created_at, CASE WHEN last.type = 3 THEN last.at END AS deleted_at
FROM unnest($1::text[], $2::integer[]) AS p(room, gen)
JOIN room_heads AS head USING (room, gen)
JOIN events AS began ON began.room = p.room AND began.gen = p.gen AND began.seq = 1
JOIN events AS last ON last.room = p.room AND last.gen = p.gen AND last.seq = head.seq;

-- name: hours_drop
-- Delete at most 1000 records of hours before $1.
WITH old AS (
    SELECT room, gen, hour, since
    FROM room_hours
    WHERE hour < $1
    ORDER BY hour
    LIMIT 1000
)
DELETE FROM room_hours
USING old
WHERE (room_hours.room, room_hours.gen, room_hours.hour, room_hours.since) = (old.room, old.gen, old.hour, old.since);
