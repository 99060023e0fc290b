DELETE FROM lease WHERE run = :run
