-- All notes of a topic.
SELECT key, stamp, value, clock_timestamp() - written_at AS age FROM shoal.note
WHERE topic = $1 AND (expires_at IS NULL OR expires_at > clock_timestamp())
