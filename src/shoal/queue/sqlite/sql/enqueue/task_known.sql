SELECT 1 FROM task WHERE run = :run AND id = :id
