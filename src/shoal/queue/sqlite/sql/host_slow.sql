-- An operator's word: it also ends what complaints have slowed the host to.
UPDATE host SET delay = :delay, slowdown = 0 WHERE id = :host
