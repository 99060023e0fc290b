INSERT INTO dropped (seq, run, dropped_at)
SELECT dead.seq, dead.run, :now FROM json_each(:numbers) n CROSS JOIN dead ON dead.no = n.value
