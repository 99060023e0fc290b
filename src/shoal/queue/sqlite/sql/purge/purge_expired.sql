DELETE FROM expired WHERE no IN (SELECT no FROM expired WHERE run = :run LIMIT :limit)
