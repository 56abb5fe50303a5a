-- name: directory_marks
-- How new each room that is not deleted is, so that a process reads only what changed.
SELECT room, gen, cfg_ver, updated_at
FROM rooms
WHERE deleted_at IS NULL;

-- name: directory_rooms
-- The rooms named in $1 that are not deleted.
SELECT room, gen, cfg_ver, config, salt, created_at, updated_at
FROM rooms
WHERE room = ANY($1::text[]) AND deleted_at IS NULL;

-- name: directory_last_generation
-- Generation of the last room under an id, deleted or not; no row = there was none.
SELECT gen
FROM rooms
WHERE room = $1;

-- name: directory_last_fact
-- Type, version and body of a generation's last fact; of an ended one that is room_deleted.
SELECT e.type, e.lv, e.body
FROM room_heads h
JOIN events e ON e.room = h.room AND e.gen = h.gen AND e.seq = h.seq
WHERE h.room = $1 AND h.gen = $2;
