DELETE FROM lane WHERE run = :run
