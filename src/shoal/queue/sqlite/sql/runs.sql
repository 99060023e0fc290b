-- Runs: created, changed, counted and purged.

-- name: run_add
INSERT INTO run (id, scraper, host_delay, per_host, max_attempts, ttl, dedup, dedup_steps, started_at)
VALUES (:run_id, :scraper, :host_delay, :per_host, :max_attempts, :ttl, :dedup, :dedup_steps, :now)
ON CONFLICT (id) DO NOTHING

-- name: run_get
SELECT json_array(no, id, scraper, state, host_delay, per_host, max_attempts, ttl, started_at, reason, dedup, json(dedup_steps))
FROM run WHERE id = :run_id

-- name: run_list
-- The newest first; runs with the same start time in the order in which they were started.
SELECT json_group_array(json_array(no, id, scraper, state, host_delay, per_host, max_attempts, ttl, started_at, reason, dedup, json(dedup_steps)))
FROM (SELECT * FROM run ORDER BY started_at DESC, no DESC)

-- name: run_names
-- For "did you mean": a thousand names are enough.
SELECT json_group_array(id) FROM (SELECT id FROM run ORDER BY no DESC LIMIT 1000)

-- name: run_steer
UPDATE run SET state = :state, reason = :reason WHERE no = :run

-- name: run_change
UPDATE run SET host_delay = :host_delay, per_host = :per_host, max_attempts = :max_attempts WHERE no = :run

-- name: run_hosts
SELECT json_group_array(DISTINCT host) FROM host_queue WHERE run = :run

-- name: run_host_queues
SELECT json_group_array(id) FROM host_queue WHERE run = :run

-- name: stats
SELECT json_group_array(json_array(
    step, partition, json_array(pending, delayed, leased, completed, dead, expired, dropped, items, rejected)
))
FROM step_group WHERE run = :run

-- name: purge_dead
DELETE FROM dead WHERE no IN (SELECT no FROM dead WHERE run = :run LIMIT :limit)

-- name: purge_dropped
DELETE FROM dropped WHERE seq IN (SELECT seq FROM dropped WHERE run = :run LIMIT :limit)

-- name: purge_expired
DELETE FROM expired WHERE no IN (SELECT no FROM expired WHERE run = :run LIMIT :limit)

-- name: purge_expiry
DELETE FROM expiring WHERE (run, at, seq) IN (SELECT run, at, seq FROM expiring WHERE run = :run LIMIT :limit)

-- name: purge_failures
DELETE FROM failure WHERE seq IN (SELECT value & 0xfffffffffffff FROM json_each(:places))

-- name: purge_hosts
SELECT json_group_array(DISTINCT host) FROM lease WHERE run = :run

-- name: purge_item
DELETE FROM item WHERE id IN (SELECT id FROM item WHERE run = :run LIMIT :limit)

-- name: purge_host_queues
DELETE FROM host_queue WHERE run = :run

-- name: purge_leases
DELETE FROM lease WHERE run = :run

-- name: purge_mark
INSERT INTO purged (run) VALUES (:run)

-- name: purge_next
SELECT min(run) FROM purged

-- name: purge_reject
DELETE FROM reject WHERE id IN (SELECT id FROM reject WHERE run = :run LIMIT :limit)

-- name: purge_run
DELETE FROM run WHERE no = :run

-- name: purge_step_groups
DELETE FROM step_group WHERE run = :run

-- name: purge_some
-- A batch of tasks of a run, as [host queue, place].
SELECT json_group_array(json_array(host_queue, place))
FROM (SELECT host_queue, (9 - priority) << 52 | seq AS place FROM task WHERE run = :run LIMIT :limit)

-- name: purge_tasks
DELETE FROM task WHERE seq IN (SELECT value & 0xfffffffffffff FROM json_each(:places))

-- name: purge_unmark
DELETE FROM purged WHERE run = :run

-- name: purge_workers
DELETE FROM worker WHERE run = :run

-- name: purge_yielded
DELETE FROM yielded WHERE seq IN (SELECT value & 0xfffffffffffff FROM json_each(:places))
