-- How many notes a topic has, the bytes of their values, and the age of the oldest. The values are not read: `size` has their length.
SELECT count(*) AS count, coalesce(sum(size), 0)::bigint AS bytes, max(clock_timestamp() - written_at) AS oldest FROM shoal.note
WHERE topic = $1 AND (expires_at IS NULL OR expires_at > clock_timestamp())
