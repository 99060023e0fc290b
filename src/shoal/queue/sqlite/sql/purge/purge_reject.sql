DELETE FROM reject WHERE id IN (SELECT id FROM reject WHERE run = :run LIMIT :limit)
