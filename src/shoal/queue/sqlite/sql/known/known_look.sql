-- Of the tasks [position, id, key], those that are not in the run: their positions, and whether another run has queued them.
SELECT json_group_array(json_array(g.value ->> 0, EXISTS (
    SELECT 1 FROM known WHERE known.scraper = run.scraper AND known.key = unhex(g.value ->> 2) AND known.until > :now
)))
FROM json_each(:given) g CROSS JOIN run ON run.no = :run
WHERE NOT EXISTS (SELECT 1 FROM task WHERE task.run = :run AND task.id = unhex(g.value ->> 1))
