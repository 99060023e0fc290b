DELETE FROM task WHERE seq IN (SELECT value & 0xfffffffffffff FROM json_each(:places))
