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
