-- Links that let somebody outside the team watch.

CREATE TABLE monitor_links (
    id text PRIMARY KEY,
    label text NOT NULL,
    created_at bigint NOT NULL,
    created_by text NOT NULL,
    created_by_id text,
    expires_at bigint NOT NULL,
    revoked_at bigint,
    revoked_by text,
    last_used_at bigint
);

CREATE INDEX monitor_links_maker ON monitor_links (created_by_id);

COMMENT ON TABLE monitor_links IS 'One row per link; the token is signed anew whenever it is shown, and stored nowhere. created_by_id: id of the operator who made it, NULL for ADMIN_KEY. Times: epoch ms.';
