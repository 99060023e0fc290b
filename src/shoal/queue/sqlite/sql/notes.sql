-- Notes.

-- name: note_expire
-- A batch of expired notes; no query returns them any more.
DELETE FROM note WHERE rowid IN (SELECT rowid FROM note WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit)

-- name: note_read
SELECT key, value, stamp, written_at FROM note
WHERE topic = :topic AND (expires_at IS NULL OR expires_at > :now)

-- name: note_read_of
SELECT note.key, note.value, note.stamp, note.written_at
FROM json_each(:keys) asked CROSS JOIN note ON note.topic = :topic AND note.key = asked.value
WHERE note.expires_at IS NULL OR note.expires_at > :now

-- name: note_remove
DELETE FROM note WHERE topic = :topic AND key IN (SELECT value FROM json_each(:keys))

-- name: note_size
-- How many notes a topic has, the bytes of their values, and when the oldest was written.
SELECT count(*), coalesce(sum(size), 0), min(written_at) FROM note
WHERE topic = :topic AND (expires_at IS NULL OR expires_at > :now)

-- name: note_stamp
SELECT stamp FROM note WHERE topic = :topic AND key = :key AND (expires_at IS NULL OR expires_at > :now)

-- name: note_trim
-- The newest notes stay as long as their values fit; the sum never decreases, so all notes after the first that does not fit are deleted.
DELETE FROM note WHERE topic = :topic AND key IN (
    SELECT key FROM (
        SELECT key, sum(size) OVER (ORDER BY written_at DESC, key ROWS UNBOUNDED PRECEDING) AS kept
        FROM note WHERE topic = :topic
    ) WHERE kept > :max_bytes
)

-- name: note_write
INSERT INTO note (topic, key, stamp, written_at, expires_at, size, value)
VALUES (:topic, :key, :stamp, :now, :now + :ttl, octet_length(:value), :value)
ON CONFLICT (topic, key) DO UPDATE SET
    stamp = excluded.stamp, written_at = excluded.written_at, expires_at = excluded.expires_at,
    size = excluded.size, value = excluded.value
