INSERT INTO section (run, step, partition)
SELECT DISTINCT :run, value ->> 0, value ->> 1 FROM json_each(:names) WHERE true
ON CONFLICT (run, step, partition) DO NOTHING
