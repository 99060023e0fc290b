-- The delay of a host that was slowed by errors, apart from the delay that an operator sets: leases carry it, so that any success reduces it.
ALTER TABLE shoal.host ADD COLUMN slowdown interval NOT NULL DEFAULT '0';

-- It returns one more column. Workers of the previous version read columns by name.
DROP FUNCTION IF EXISTS shoal.claim(uuid, boolean, text, text, int, interval, interval, text[], text[], bigint[], timestamptz[], text, bytea, bigint);
