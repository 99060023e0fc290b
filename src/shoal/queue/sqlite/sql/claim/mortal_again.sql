-- Waiting tasks may expire again. :places are those of the tasks.
INSERT INTO expiry (run, at, seq)
SELECT task.run, task.expires_at, task.seq
FROM json_each(:places) p CROSS JOIN task
WHERE task.seq = p.value & 0xfffffffffffff AND task.expires_at IS NOT NULL
ON CONFLICT DO NOTHING
