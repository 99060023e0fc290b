DELETE FROM purged WHERE run = :run
