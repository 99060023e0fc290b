-- The hosts of a run keep the gap of their last start, which may be of another run. One that equals the run's old delay $2 becomes
-- the new one, $3, or a run that gets faster would wait for its old delay once more. In the order of their ids, as every call locks hosts.
UPDATE shoal.host h SET last_gap = $3::interval
FROM (
    SELECT id FROM shoal.host
    WHERE last_gap = $2::interval AND last_gap > $3::interval AND id IN (
        SELECT l.host FROM shoal.lane l JOIN shoal.run r ON r.id = l.run WHERE r.run_id = $1
    )
    ORDER BY id FOR NO KEY UPDATE
) waiting
WHERE h.id = waiting.id
