-- name: leader_epoch_seen
-- Highest number of a leader's term that Postgres has seen; no row = none.
SELECT epoch
FROM leader_epoch;

-- name: leader_epoch_record
-- Note a term before its first act. No row comes back when Postgres has seen the same or a later one.
INSERT INTO leader_epoch (one, epoch)
VALUES (TRUE, $1)
ON CONFLICT (one) DO UPDATE
SET epoch = EXCLUDED.epoch
WHERE leader_epoch.epoch < EXCLUDED.epoch
RETURNING epoch;
