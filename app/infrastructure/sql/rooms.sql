-- name: room_created
-- A room begins (fact 1). A later generation replaces an earlier one.
INSERT INTO rooms (room, gen, cfg_ver, config, salt, created_at, updated_at)
VALUES ($1, $2, $3, $4::jsonb, $5, $6, $6)
ON CONFLICT (room) DO UPDATE
SET gen = EXCLUDED.gen,
    cfg_ver = EXCLUDED.cfg_ver,
    config = EXCLUDED.config,
    salt = EXCLUDED.salt,
    created_at = EXCLUDED.created_at,
    updated_at = EXCLUDED.updated_at,
    deleted_at = NULL
WHERE rooms.gen < EXCLUDED.gen;

-- name: room_updated
-- Fields of a room change (fact 2). $4: the changed fields.
UPDATE rooms
SET cfg_ver = $3,
    config = config || $4::jsonb,
    updated_at = $5
WHERE room = $1 AND gen = $2;

-- name: room_deleted
-- A room ends (fact 3).
UPDATE rooms
SET deleted_at = $3
WHERE room = $1 AND gen = $2;

-- name: rooms_all
-- Every room that is not deleted.
SELECT room, gen, cfg_ver, config, salt, created_at, updated_at
FROM rooms
WHERE deleted_at IS NULL;

-- name: rooms_one
-- One room, deleted or not.
SELECT room, gen, cfg_ver, config, salt, created_at, updated_at, deleted_at
FROM rooms
WHERE room = $1;

-- name: rooms_names
-- Ids of the rooms that are not deleted.
SELECT room
FROM rooms
WHERE deleted_at IS NULL;
