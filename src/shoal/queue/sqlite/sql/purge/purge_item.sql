DELETE FROM item WHERE id IN (SELECT id FROM item WHERE run = :run LIMIT :limit)
