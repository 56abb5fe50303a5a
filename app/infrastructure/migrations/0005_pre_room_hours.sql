-- What each room did in each hour.

CREATE TABLE room_hours (
    room text NOT NULL,
    gen integer NOT NULL,
    hour integer NOT NULL,
    since bigint NOT NULL,
    covered_ms bigint NOT NULL,
    joins bigint NOT NULL,
    passes bigint NOT NULL,
    peak_depth bigint NOT NULL,
    peak_active bigint NOT NULL,
    samples bigint NOT NULL,
    depth_sum bigint NOT NULL,
    blocked bigint NOT NULL,
    warned bigint NOT NULL,
    waits bigint NOT NULL,
    wait_sum_ms bigint NOT NULL,
    wait_max_ms bigint NOT NULL,
    kept bytea NOT NULL,
    PRIMARY KEY (room, gen, hour, since)
);

COMMENT ON TABLE room_hours IS 'Exact counts of a room in one hour (epoch ms // 3600000), as far as covered_ms of it was counted; several rows of one hour (since: epoch ms at which counting began) add up. kept: at most 256 waits, pairs of u32: ms waited, ms of the hour.';

CREATE INDEX room_hours_by_hour ON room_hours (hour);
