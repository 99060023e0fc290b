-- Set by an operator: it also ends the slowdown caused by errors of the host.
UPDATE host SET delay = :delay, slowdown = 0 WHERE id = :host
