-- Named operators, and the mark by which every process sees that its copy of operators and monitor links is old.

CREATE TABLE operators (
    id text PRIMARY KEY,
    name text NOT NULL,
    role text NOT NULL,
    verifier text NOT NULL,
    verifier_before text,
    holder bytea NOT NULL,
    created_at bigint NOT NULL,
    created_by text NOT NULL,
    last_used_at bigint,
    last_used_ip text,
    revoked_at bigint,
    revoked_by text
);

COMMENT ON TABLE operators IS 'One row per operator, revoked ones included. verifier: keyed digest of the key, which is stored nowhere; verifier_before: the one before the last rotation of SECRET, for instances that do not have the new secret yet; holder: random bytes that console sessions are bound to. Times: epoch ms.';

CREATE TABLE access_version (
    only_row boolean PRIMARY KEY DEFAULT TRUE CHECK (only_row),
    version bigint NOT NULL
);

INSERT INTO access_version (version) VALUES (1);

COMMENT ON TABLE access_version IS 'Raised in every transaction that changes what an operator or a monitor link may do; its lock puts these changes in a row.';
