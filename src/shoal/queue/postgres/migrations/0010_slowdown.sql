-- What a host is slowed to by complaints, apart from the delay that an operator sets: leases tell it, so that any success eases it.
ALTER TABLE shoal.host ADD COLUMN slowdown interval NOT NULL DEFAULT '0';

-- It answers with one column more. Workers of the version before read columns by name.
DROP FUNCTION IF EXISTS shoal.claim(uuid, boolean, text, text, int, interval, interval, text[], text[], bigint[], timestamptz[], text, bytea, bigint);
