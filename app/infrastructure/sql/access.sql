-- name: access_version
-- Mark of the present state of operators and monitor links.
SELECT version
FROM access_version;

-- name: access_changes
-- Raise the mark, and hold its lock: changes of operators and links come one after another.
UPDATE access_version
SET version = version + 1;

-- name: access_operators
-- Every operator, in the order of their making.
SELECT id, name, role, verifier, verifier_before, holder, created_at, created_by, last_used_at, last_used_ip,
    revoked_at, revoked_by
FROM operators
ORDER BY created_at, id;

-- name: access_operator
-- One operator.
SELECT id, name, role, verifier, verifier_before, holder, created_at, created_by, last_used_at, last_used_ip,
    revoked_at, revoked_by
FROM operators
WHERE id = $1;

-- name: access_operator_count
-- How many operators there are, revoked ones included.
SELECT count(*)
FROM operators;

-- name: access_operator_add
-- A new operator.
INSERT INTO operators (id, name, role, verifier, holder, created_at, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: access_operator_change
-- Another name and role.
UPDATE operators
SET name = $2,
    role = $3
WHERE id = $1;

-- name: access_operator_revoke
-- Take the rights of an operator for good.
UPDATE operators
SET revoked_at = $2,
    revoked_by = $3
WHERE id = $1;

-- name: access_operator_purge
-- Remove the record of an operator.
DELETE FROM operators
WHERE id = $1;

-- name: access_operator_renew
-- Put verifier $3 in the place of $2; no row when somebody else did it first.
UPDATE operators
SET verifier = $3,
    verifier_before = $2
WHERE id = $1
    AND verifier = $2;

-- name: access_operator_used
-- When and where an operator was last seen, by the minute.
UPDATE operators
SET last_used_at = $2,
    last_used_ip = $3
WHERE id = $1
    AND (last_used_at IS NULL OR last_used_at < $2);

-- name: access_links
-- Monitor links that ended after $1 or have not ended, newest first.
SELECT id, label, created_at, created_by, created_by_id, expires_at, revoked_at, revoked_by, last_used_at
FROM monitor_links
WHERE least(expires_at, coalesce(revoked_at, expires_at)) > $1
ORDER BY created_at DESC, id;

-- name: access_link
-- One monitor link.
SELECT id, label, created_at, created_by, created_by_id, expires_at, revoked_at, revoked_by, last_used_at
FROM monitor_links
WHERE id = $1;

-- name: access_link_count
-- How many links are live at $1.
SELECT count(*)
FROM monitor_links
WHERE revoked_at IS NULL
    AND expires_at > $1;

-- name: access_link_counts_by_maker
-- How many links of each operator are live at $1.
SELECT created_by_id, count(*) AS links
FROM monitor_links
WHERE revoked_at IS NULL
    AND expires_at > $1
    AND created_by_id IS NOT NULL
GROUP BY created_by_id;

-- name: access_link_add
-- A new monitor link.
INSERT INTO monitor_links (id, label, created_at, created_by, created_by_id, expires_at)
VALUES ($1, $2, $3, $4, $5, $6);

-- name: access_link_revoke
-- Revoke one link that is live at $2.
UPDATE monitor_links
SET revoked_at = $2,
    revoked_by = $3
WHERE id = $1
    AND revoked_at IS NULL
    AND expires_at > $2;

-- name: access_links_revoke
-- Revoke every link that is live at $1; only those of operator $3 when it is not NULL.
UPDATE monitor_links
SET revoked_at = $1,
    revoked_by = $2
WHERE revoked_at IS NULL
    AND expires_at > $1
    AND ($3::text IS NULL OR created_by_id = $3);

-- name: access_link_used
-- When a link was last used, by the minute.
UPDATE monitor_links
SET last_used_at = $2
WHERE id = $1
    AND (last_used_at IS NULL OR last_used_at < $2);

-- name: access_links_drop
-- Drop links that ended before $1.
DELETE FROM monitor_links
WHERE least(expires_at, coalesce(revoked_at, expires_at)) <= $1;

-- name: audit_add
-- One entry of the audit trail that is no act on a room's line.
INSERT INTO audit (ts, actor, actor_kind, actor_id, role, action, room, detail, ok, ip, instance)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);

-- name: audit_last_of_life
-- The last start or stop of instance $1, or of any when it is NULL.
SELECT action, ok
FROM audit
WHERE action IN ('server.start', 'server.stop')
    AND ($1::text IS NULL OR instance = $1)
ORDER BY id DESC
LIMIT 1;
