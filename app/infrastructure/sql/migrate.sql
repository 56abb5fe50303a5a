-- name: migrate_lock
-- One migrator at a time per schema; ends with the session.
SELECT pg_advisory_lock(hashtextextended('qm:migrate:' || coalesce($1::text, ''), 0));

-- name: migrate_tables
-- What has been applied, and what this schema asks of a build.
CREATE TABLE IF NOT EXISTS schema_versions (
    version integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- name: migrate_marks_table
-- mark 'needs_level': lowest SCHEMA_LEVEL of a build that may work on this schema.
CREATE TABLE IF NOT EXISTS schema_marks (
    mark text PRIMARY KEY,
    value integer NOT NULL
);

-- name: migrate_applied
-- Versions applied so far.
SELECT version
FROM schema_versions;

-- name: migrate_done
-- Note one version as applied.
INSERT INTO schema_versions (version, name)
VALUES ($1, $2);

-- name: migrate_mark
-- Value of one mark.
SELECT value
FROM schema_marks
WHERE mark = $1;
