-- The result of a claim has its time too. A function's result type cannot be changed in place, so the old function is dropped first.
DROP FUNCTION IF EXISTS shoal.claim(
    uuid, boolean, text, text, int, interval, interval, text[], text[], bigint[], timestamptz[]
);
