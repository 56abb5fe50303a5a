-- Number of the leader's latest term, so that it does not go back with a Valkey that lost its last writes.

CREATE TABLE leader_epoch (
    one boolean PRIMARY KEY CHECK (one),
    epoch bigint NOT NULL
);

COMMENT ON TABLE leader_epoch IS 'One row: the highest epoch under which an instance has been the leader (FLT-149).';
