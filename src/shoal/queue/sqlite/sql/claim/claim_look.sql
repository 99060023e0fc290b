-- What a claim needs to know of its run before it starts: its state, and whether time has changed anything: a lost lease
-- of any run, an expired task, or a task whose delay is over.
SELECT json_array(
    no, state, host_delay, per_host,
    (SELECT min(deadline) FROM lease),
    (SELECT min(at) FROM expiry WHERE expiry.run = run.no),
    (SELECT min(due) FROM delayed WHERE delayed.run = run.no),
    (SELECT worker.no FROM worker WHERE worker.run = run.no AND worker.name = :worker_id)
)
FROM run WHERE id = :run_id
