-- Bring the lanes of a run's hosts forward as far as its limits now allow.
SELECT shoal.wake((SELECT array_agg(DISTINCT l.host) FROM shoal.lane l JOIN shoal.run r ON r.id = l.run WHERE r.run_id = $1 AND l.host > 0))
