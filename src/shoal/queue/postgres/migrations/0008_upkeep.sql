-- How often an empty lane was looked at in vain since it waits to be closed: the looks become rarer (see 50_claim.sql).
ALTER TABLE shoal.lane ADD COLUMN IF NOT EXISTS waits smallint NOT NULL DEFAULT 0;

-- These say how much they have moved. A function's result cannot be changed in place, so the old ones go first.
DROP FUNCTION IF EXISTS shoal.tidy(int);
DROP FUNCTION IF EXISTS shoal.promote(int, timestamptz, int);

-- What purges left behind that met a sweep, and what has become of it since.
DELETE FROM shoal.bundle t WHERE NOT EXISTS (SELECT FROM shoal.run r WHERE r.id = t.run);
DELETE FROM shoal.lane t WHERE NOT EXISTS (SELECT FROM shoal.run r WHERE r.id = t.run);
DELETE FROM shoal.expired t WHERE NOT EXISTS (SELECT FROM shoal.run r WHERE r.id = t.run);
DELETE FROM shoal.delta t WHERE NOT EXISTS (SELECT FROM shoal.run r WHERE r.id = t.run);
DELETE FROM shoal.section_tally t WHERE NOT EXISTS (SELECT FROM shoal.run r WHERE r.id = t.run);
DELETE FROM shoal.host_tally t WHERE NOT EXISTS (SELECT FROM shoal.run r WHERE r.id = t.run);
