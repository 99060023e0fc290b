DELETE FROM lease WHERE token IN (SELECT value FROM json_each(:tokens))
