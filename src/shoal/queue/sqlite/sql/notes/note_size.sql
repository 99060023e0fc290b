-- How many notes a topic has, the bytes of their values, and when the oldest was written.
SELECT count(*), coalesce(sum(size), 0), min(written_at) FROM note
WHERE topic = :topic AND (expires_at IS NULL OR expires_at > :now)
