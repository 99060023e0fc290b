-- What a host is slowed to by complaints, apart from the delay that an operator sets: leases tell it, so that any success eases it.
ALTER TABLE host ADD COLUMN slowdown INTEGER NOT NULL DEFAULT 0;
