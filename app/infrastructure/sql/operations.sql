-- name: journal_size
-- Bytes of the whole database, and facts that were ever journaled.
SELECT pg_database_size(current_database()) AS bytes, (SELECT coalesce(sum(h.seq), 0)::bigint FROM room_heads h) AS facts;
