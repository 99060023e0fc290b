-- Functions only: claims and settlements take less CPU time (see 50_claim.sql, 58_complete.sql and 60_settle.sql).
SELECT;
