SELECT key, value, stamp, written_at FROM note
WHERE topic = :topic AND (expires_at IS NULL OR expires_at > :now)
