DELETE FROM note WHERE topic = :topic AND key IN (SELECT value FROM json_each(:keys))
