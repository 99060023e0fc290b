INSERT INTO purged (run) VALUES (:run)
