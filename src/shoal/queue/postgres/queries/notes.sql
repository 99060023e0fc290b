-- Notes.

-- name: notes
-- All notes of a topic.
SELECT key, stamp, value, clock_timestamp() - written_at AS age FROM shoal.note
WHERE topic = $1 AND (expires_at IS NULL OR expires_at > clock_timestamp())

-- name: notes_of
-- The notes of a topic with these key hashes.
SELECT key, stamp, value, clock_timestamp() - written_at AS age FROM shoal.note
WHERE topic = $1 AND place = ANY ($2::bytea[]) AND (expires_at IS NULL OR expires_at > clock_timestamp())

-- name: notes_size
-- How many notes a topic has, the bytes of their values, and the age of the oldest. The values are not read: `size` has their length.
SELECT count(*) AS count, coalesce(sum(size), 0)::bigint AS bytes, max(clock_timestamp() - written_at) AS oldest FROM shoal.note
WHERE topic = $1 AND (expires_at IS NULL OR expires_at > clock_timestamp())
