-- Leases are few and a worker is seldom silent, so all of them are scanned: see lease_of_worker.sql.
UPDATE lease SET deadline = :deadline
WHERE deadline > :now AND worker IN (SELECT no FROM worker WHERE name = :worker_id)
