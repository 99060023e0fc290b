UPDATE lease SET deadline = :deadline WHERE token IN (SELECT value FROM json_each(:tokens))
