INSERT INTO lane (run, section, host)
SELECT :run, section.id, host.id
FROM json_each(:names) n CROSS JOIN host CROSS JOIN section
WHERE host.name = n.value ->> 2
  AND section.run = :run AND section.step = n.value ->> 0 AND section.partition = n.value ->> 1
ON CONFLICT (host, run, section) DO NOTHING
