-- name: seal_lock
-- Nobody is in the middle of adding an entry, nor making a seal, while this is held: no lower id can still appear.
LOCK TABLE audit IN SHARE ROW EXCLUSIVE MODE;

-- name: seal_last
-- The newest seal.
SELECT sealed_to, sealed_at, digest
FROM audit_seals
ORDER BY id DESC
LIMIT 1;

-- name: seal_entries
-- Entries with ids over $1, at most $2 of them and none over $3 (NULL = all).
SELECT id, ts, actor, actor_kind, actor_id, role, action, room, detail, ok, ip, instance
FROM audit
WHERE id > $1
    AND ($3::bigint IS NULL OR id <= $3)
ORDER BY id
LIMIT $2;

-- name: seal_add
-- A new seal.
INSERT INTO audit_seals (sealed_to, entries, sealed_at, digest)
VALUES ($1, $2, $3, $4);

-- name: seals_after
-- Seals behind $1 (sealed_to), oldest first, at most $2.
SELECT sealed_to, entries, digest
FROM audit_seals
WHERE sealed_to > $1
ORDER BY id
LIMIT $2;

-- name: seal_checked
-- Keep what a check found.
INSERT INTO audit_check (only_row, checked_at, bad_from)
VALUES (TRUE, $1, $2)
ON CONFLICT (only_row) DO UPDATE
SET checked_at = excluded.checked_at,
    bad_from = excluded.bad_from;

-- name: seal_state
-- The newest seal and the last check.
SELECT s.sealed_to, s.sealed_at, s.digest, c.checked_at, c.bad_from
FROM (SELECT 1) AS one
LEFT JOIN (SELECT sealed_to, sealed_at, digest FROM audit_seals ORDER BY id DESC LIMIT 1) AS s ON TRUE
LEFT JOIN audit_check AS c ON TRUE;
