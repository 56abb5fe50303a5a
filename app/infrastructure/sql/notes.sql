-- name: notes_config_before
-- Configuration of a room as the journal has described it so far.
SELECT config
FROM rooms
WHERE room = $1 AND gen = $2;

-- name: notes_audit
-- Add entries to the audit trail, one element of each list per entry, of room $10.
INSERT INTO audit (ts, actor, actor_kind, actor_id, role, action, detail, ip, instance, room, ok)
SELECT n.ts, n.actor, n.actor_kind, n.actor_id, n.role, n.action, n.detail, n.ip, n.instance, $10::text, TRUE
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[])
    WITH ORDINALITY AS n(ts, actor, actor_kind, actor_id, role, action, detail, ip, instance, i)
ORDER BY n.i;

-- name: notes_marks
-- Add marks to the timeline of room $5, one element of each list per mark.
INSERT INTO timeline (ts, kind, text, actor, room)
SELECT n.ts, n.kind, n.text, n.actor, $5::text
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS n(ts, kind, text, actor, i)
ORDER BY n.i;

-- name: notes_read_audit
-- Entries of the audit trail, newest first; every filter is NULL when it was not asked for. $4, $5: from (inclusive)
-- and to (exclusive), epoch ms; $7: only ids below; $8: how many at most.
SELECT id, ts, actor, actor_kind, actor_id, role, action, room, detail, ok, ip, instance
FROM audit
WHERE ($1::text IS NULL OR room = $1)
    AND ($2::text IS NULL OR action = $2)
    AND ($3::text IS NULL OR actor = $3 OR actor_id = $3)
    AND ($4::bigint IS NULL OR ts >= $4)
    AND ($5::bigint IS NULL OR ts < $5)
    AND ($6::boolean IS NULL OR ok = $6)
    AND ($7::bigint IS NULL OR id < $7)
ORDER BY id DESC
LIMIT $8;

-- name: notes_read_marks
-- Marks behind time $2 and id $5 and before $3 (NULL = no end), oldest first; of room $1, or of all when it is NULL.
SELECT id, ts, room, kind, text, actor
FROM timeline
WHERE ($1::text IS NULL OR room = $1)
    AND (ts, id) > ($2, $5::bigint)
    AND ($3::bigint IS NULL OR ts < $3)
ORDER BY ts, id
LIMIT $4;

-- name: notes_drop_marks
-- Delete at most 1000 marks older than $1.
WITH old AS (
    SELECT id
    FROM timeline
    WHERE ts < $1
    ORDER BY ts
    LIMIT 1000
)
DELETE FROM timeline
USING old
WHERE timeline.id = old.id;

-- name: notes_mark_once
-- Add a mark to the timeline of room $1, unless it has one of the same kind and time.
INSERT INTO timeline (ts, room, kind, text, actor)
SELECT $2::bigint, $1::text, $3::text, $4::text, $5::text
WHERE NOT EXISTS (
    SELECT 1
    FROM timeline
    WHERE room = $1 AND ts = $2 AND kind = $3
);

-- name: notes_room_gone
-- The timeline of a room ends with it.
DELETE FROM timeline
WHERE room = $1;
