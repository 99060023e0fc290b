-- Only functions have changed: shoal.replay_after, and the host of dead letters on any port (see 70_dead.sql). Workers of the previous
-- version go on with shoal.replay, which stays.
SELECT 1;
