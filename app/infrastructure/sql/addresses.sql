-- name: addresses_histories
-- Every generation of every room.
SELECT room, gen
FROM room_heads
ORDER BY room, gen;

-- name: addresses_blank
-- Blank the readable addresses of facts older than $4 (epoch ms) among the 1000 facts of room $1, generation $2, after
-- position $3. Recorded times do not go back, so these are the first of them. Returns the last position that was old
-- enough, NULL when none was.
WITH next AS (
    SELECT seq, at
    FROM events
    WHERE room = $1 AND gen = $2 AND seq > $3
    ORDER BY seq
    LIMIT 1000
),
blanked AS (
    UPDATE events
    SET ip = NULL
    FROM next
    WHERE events.room = $1 AND events.gen = $2 AND events.seq = next.seq
        AND next.at < $4 AND events.ip IS NOT NULL
)
SELECT max(seq)
FROM next
WHERE at < $4;
