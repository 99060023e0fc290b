-- The notes of a topic with these key hashes.
SELECT key, stamp, value, clock_timestamp() - written_at AS age FROM shoal.note
WHERE topic = $1 AND place = ANY ($2::bytea[]) AND (expires_at IS NULL OR expires_at > clock_timestamp())
