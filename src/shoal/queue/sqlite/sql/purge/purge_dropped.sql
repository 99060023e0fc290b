DELETE FROM dropped WHERE seq IN (SELECT seq FROM dropped WHERE run = :run LIMIT :limit)
