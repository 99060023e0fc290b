DELETE FROM worker WHERE run = :run
