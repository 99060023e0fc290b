-- A token for an entry of a history that is not an attempt. The table has a row, because a dead letter had a lease.
UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'lease' RETURNING seq
