INSERT INTO note (topic, key, stamp, written_at, expires_at, size, value)
VALUES (:topic, :key, :stamp, :now, :now + :ttl, octet_length(:value), :value)
ON CONFLICT (topic, key) DO UPDATE SET
    stamp = excluded.stamp, written_at = excluded.written_at, expires_at = excluded.expires_at,
    size = excluded.size, value = excluded.value
