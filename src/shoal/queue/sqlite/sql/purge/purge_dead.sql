DELETE FROM dead WHERE no IN (SELECT no FROM dead WHERE run = :run LIMIT :limit)
