SELECT note.key, note.value, note.stamp, note.written_at
FROM json_each(:keys) asked CROSS JOIN note ON note.topic = :topic AND note.key = asked.value
WHERE note.expires_at IS NULL OR note.expires_at > :now
