-- The delay of a host that was slowed by errors, apart from the delay that an operator sets: leases carry it, so that any success reduces it.
ALTER TABLE host ADD COLUMN slowdown INTEGER NOT NULL DEFAULT 0;
