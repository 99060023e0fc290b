-- Functions only: shoal.abandon_or_bury (see 65_abandon.sql).
SELECT 1;
