-- A claim's answer tells its moment too. A function's result cannot be changed in place, so the old one goes first.
DROP FUNCTION IF EXISTS shoal.claim(
    uuid, boolean, text, text, int, interval, interval, text[], text[], bigint[], timestamptz[]
);
