-- How often an empty lane was checked in vain while it waits to be closed: the checks become rarer (see 50_claim.sql).
ALTER TABLE shoal.lane ADD COLUMN IF NOT EXISTS waits smallint NOT NULL DEFAULT 0;

-- These return how much they have moved. A function's result type cannot be changed in place, so the old ones are dropped first.
DROP FUNCTION IF EXISTS shoal.tidy(int);
DROP FUNCTION IF EXISTS shoal.promote(int, timestamptz, int);

-- Rows left by purges that met a sweep, and what has become of them since.
DELETE FROM shoal.bundle t WHERE NOT EXISTS (SELECT FROM shoal.run r WHERE r.id = t.run);
DELETE FROM shoal.lane t WHERE NOT EXISTS (SELECT FROM shoal.run r WHERE r.id = t.run);
DELETE FROM shoal.expired t WHERE NOT EXISTS (SELECT FROM shoal.run r WHERE r.id = t.run);
DELETE FROM shoal.delta t WHERE NOT EXISTS (SELECT FROM shoal.run r WHERE r.id = t.run);
DELETE FROM shoal.section_tally t WHERE NOT EXISTS (SELECT FROM shoal.run r WHERE r.id = t.run);
DELETE FROM shoal.host_tally t WHERE NOT EXISTS (SELECT FROM shoal.run r WHERE r.id = t.run);
