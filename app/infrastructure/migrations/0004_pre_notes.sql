-- Audit trail and timeline marks of rooms.

CREATE TABLE audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ts bigint NOT NULL,
    actor text NOT NULL,
    actor_kind text NOT NULL,
    actor_id text,
    role text,
    action text NOT NULL,
    room text,
    detail text NOT NULL,
    ok boolean NOT NULL,
    ip text,
    instance text
);

CREATE INDEX audit_room ON audit (room, id);
CREATE INDEX audit_ts ON audit (ts);

COMMENT ON TABLE audit IS 'Who did what to a room, in the transaction that journals the act. ts: epoch ms. Rows are only ever added.';

CREATE FUNCTION audit_only_grows() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'the audit trail is only ever added to';
END
$$;

CREATE TRIGGER audit_only_grows
BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
FOR EACH STATEMENT EXECUTE FUNCTION audit_only_grows();

CREATE TABLE timeline (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ts bigint NOT NULL,
    room text NOT NULL,
    kind text NOT NULL,
    text text NOT NULL,
    actor text NOT NULL
);

CREATE INDEX timeline_room ON timeline (room, ts);
CREATE INDEX timeline_ts ON timeline (ts);

COMMENT ON TABLE timeline IS 'Marks of what changed a room in the last 24 h, written with the facts themselves; older ones are deleted.';
