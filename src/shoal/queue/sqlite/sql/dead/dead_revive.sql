-- The time to live of a replayed task starts again.
UPDATE task SET expires_at = :now + ttl
WHERE ttl IS NOT NULL AND seq IN (SELECT value & 0xfffffffffffff FROM json_each(:places))
