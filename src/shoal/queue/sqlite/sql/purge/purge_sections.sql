DELETE FROM section WHERE run = :run
