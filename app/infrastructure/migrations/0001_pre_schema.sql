-- Journal, its heads, and the rooms as the journal last described them.

CREATE TABLE events (
    room text NOT NULL,
    gen integer NOT NULL,
    seq bigint NOT NULL,
    type smallint NOT NULL,
    lv smallint NOT NULL,
    at bigint NOT NULL,
    ip bytea,
    body bytea NOT NULL,
    PRIMARY KEY (room, gen, seq)
);

COMMENT ON TABLE events IS 'One row per fact of a room, in order per room and generation; never changed. at: epoch ms. body: layout of app/domain/facts.py, joined without its address.';
COMMENT ON COLUMN events.ip IS 'Readable visitor address (16 bytes, IPv4 mapped) of a join; no rebuild reads it, it may be blanked.';

-- Half-filled pages keep the counting of a head inside its page: one head moves many times a second.
CREATE TABLE room_heads (
    room text NOT NULL,
    gen integer NOT NULL,
    epoch integer NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (room, gen)
) WITH (fillfactor = 50);

COMMENT ON TABLE room_heads IS 'Last journaled position of each room and generation. epoch: number of the live state that may append; a rebuild raises it.';

CREATE TABLE rooms (
    room text PRIMARY KEY,
    gen integer NOT NULL,
    cfg_ver integer NOT NULL,
    config jsonb NOT NULL,
    salt bytea NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    deleted_at bigint
);

COMMENT ON TABLE rooms IS 'What the facts room_created, room_updated and room_deleted add up to; written in the transaction that journals them.';
