-- name: snapshot_lock
-- One maker of checkpoints per schema; ends with the session at the latest.
SELECT pg_try_advisory_lock(hashtextextended('qm:checkpoint:' || current_schema(), 0));

-- name: snapshot_unlock
-- The maker has done its turn.
SELECT pg_advisory_unlock(hashtextextended('qm:checkpoint:' || current_schema(), 0));

-- name: snapshot_due
-- The room with the most facts since its last checkpoint, if they are more than $1. $2: rooms left out.
SELECT h.room, h.gen, h.epoch, h.seq
FROM rooms r
JOIN room_heads h ON h.room = r.room AND h.gen = r.gen
LEFT JOIN LATERAL (
    SELECT max(s.seq) AS seq
    FROM room_snapshots s
    WHERE s.room = h.room AND s.gen = h.gen
) s ON true
WHERE r.deleted_at IS NULL
    AND h.seq - coalesce(s.seq, 0) > $1
    AND h.room <> ALL ($2::text[])
ORDER BY h.seq - coalesce(s.seq, 0) DESC
LIMIT 1;

-- name: snapshot_list
-- Checkpoints of a room and generation up to position $3, the latest first.
SELECT seq, lv, parts
FROM room_snapshots
WHERE room = $1 AND gen = $2 AND seq <= $3
ORDER BY seq DESC;

-- name: snapshot_part
-- One piece of a checkpoint.
SELECT body
FROM room_snapshot_parts
WHERE room = $1 AND gen = $2 AND seq = $3 AND part = $4;

-- name: snapshot_begin
-- A checkpoint with lv $4 and $5 parts.
INSERT INTO room_snapshots (room, gen, seq, lv, parts)
VALUES ($1, $2, $3, $4, $5);

-- name: snapshot_put
-- One piece of it.
INSERT INTO room_snapshot_parts (room, gen, seq, part, body)
VALUES ($1, $2, $3, $4, $5);

-- name: snapshot_thin
-- Only the latest two of the room's present generation stay.
DELETE FROM room_snapshots s
WHERE s.room = $1
    AND (
        s.gen <> $2
        OR s.seq NOT IN (
            SELECT k.seq
            FROM room_snapshots k
            WHERE k.room = $1 AND k.gen = $2
            ORDER BY k.seq DESC
            LIMIT 2
        )
    );

-- name: snapshot_sweep
-- A room that has ended is not folded from a checkpoint any more.
DELETE FROM room_snapshots s
USING rooms r
WHERE r.room = s.room AND (r.deleted_at IS NOT NULL OR r.gen <> s.gen);
