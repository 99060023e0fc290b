-- The newest notes stay as long as their values fit; the sum never decreases, so all notes after the first that does not fit are deleted.
DELETE FROM note WHERE topic = :topic AND key IN (
    SELECT key FROM (
        SELECT key, sum(size) OVER (ORDER BY written_at DESC, key ROWS UNBOUNDED PRECEDING) AS kept
        FROM note WHERE topic = :topic
    ) WHERE kept > :max_bytes
)
