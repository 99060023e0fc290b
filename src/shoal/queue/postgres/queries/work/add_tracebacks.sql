-- Add tracebacks to the history of tasks that were just buried. They stay out of dead.error, which filters search.
UPDATE shoal.attempt a SET error = given.failure
FROM unnest($1::bytea[], $2::bigint[], $3::text[]) AS given (task, token, failure)
WHERE a.task = given.task AND a.token = given.token
