DELETE FROM failure WHERE seq IN (SELECT value & 0xfffffffffffff FROM json_each(:places))
