-- Seals of the audit trail, and triggers that keep the journal and the seals as they were written.

CREATE TABLE audit_seals (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sealed_to bigint NOT NULL UNIQUE,
    entries integer NOT NULL,
    sealed_at bigint NOT NULL,
    digest bytea NOT NULL
);

COMMENT ON TABLE audit_seals IS 'Each row covers the entries of table audit after the seal before it, up to id sealed_to. digest: SHA-256 of the digest before (nothing for the first) and the lines of these entries as GET /api/admin/audit?format=csv gives them, by rising id. sealed_at: epoch ms.';

CREATE TRIGGER audit_only_grows
BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_seals
FOR EACH STATEMENT EXECUTE FUNCTION audit_only_grows();

CREATE TABLE audit_check (
    only_row boolean PRIMARY KEY DEFAULT TRUE CHECK (only_row),
    checked_at bigint NOT NULL,
    bad_from bigint
);

COMMENT ON TABLE audit_check IS 'When the seals were last compared with the trail, and the first id that no seal answers for any more; NULL = everything fits.';

CREATE FUNCTION journal_only_grows() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'the journal is only ever added to';
END
$$;

CREATE FUNCTION journal_blanks_only_addresses() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF NEW.ip IS NULL
        AND (NEW.room, NEW.gen, NEW.seq, NEW.type, NEW.lv, NEW.at, NEW.body)
        = (OLD.room, OLD.gen, OLD.seq, OLD.type, OLD.lv, OLD.at, OLD.body)
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'the journal is only ever added to; an address may be blanked';
END
$$;

CREATE TRIGGER journal_only_grows
BEFORE DELETE OR TRUNCATE ON events
FOR EACH STATEMENT EXECUTE FUNCTION journal_only_grows();

CREATE TRIGGER journal_blanks_only_addresses
BEFORE UPDATE ON events
FOR EACH ROW EXECUTE FUNCTION journal_blanks_only_addresses();
