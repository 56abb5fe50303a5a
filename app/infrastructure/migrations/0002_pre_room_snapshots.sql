-- Checkpoints of rooms, folded from the journal alone.

CREATE TABLE room_snapshots (
    room text NOT NULL,
    gen integer NOT NULL,
    seq bigint NOT NULL,
    lv smallint NOT NULL,
    parts integer NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (room, gen, seq)
);

COMMENT ON TABLE room_snapshots IS 'A room as its facts up to seq add up to. lv: form of the parts (app/domain/fold_state.py).';

-- The parts are compressed before they come here.
CREATE TABLE room_snapshot_parts (
    room text NOT NULL,
    gen integer NOT NULL,
    seq bigint NOT NULL,
    part integer NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (room, gen, seq, part),
    FOREIGN KEY (room, gen, seq) REFERENCES room_snapshots ON DELETE CASCADE
);

ALTER TABLE room_snapshot_parts ALTER COLUMN body SET STORAGE EXTERNAL;

COMMENT ON TABLE room_snapshot_parts IS 'Pieces of a checkpoint, zlib, in order of part from 0 on.';
