SELECT stamp FROM note WHERE topic = :topic AND key = :key AND (expires_at IS NULL OR expires_at > :now)
