DELETE FROM dead WHERE no IN (SELECT value FROM json_each(:numbers))
