-- The hosts of a run keep the gap of their last start, which may be of another run. One that equals the run's old delay becomes
-- the new one, or a run that gets faster would wait for its old delay once more.
UPDATE host SET last_delay = :new
WHERE last_delay = :old AND last_delay > :new AND id IN (SELECT host FROM lane WHERE run = :run)
