-- What a claim must know of its run before it starts: how it stands, and whether time has moved anything: a lease of any
-- run that is lost, a task that has outlived its time, or one whose delay is over.
SELECT json_array(
    no, state, host_delay, per_host,
    (SELECT min(deadline) FROM lease),
    (SELECT min(at) FROM expiry WHERE expiry.run = run.no),
    (SELECT min(due) FROM delayed WHERE delayed.run = run.no),
    (SELECT worker.no FROM worker WHERE worker.run = run.no AND worker.name = :worker_id)
)
FROM run WHERE id = :run_id
