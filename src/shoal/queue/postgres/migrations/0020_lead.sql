-- Claims have a lead. The claims of the previous version run the new function.
DROP FUNCTION IF EXISTS shoal.claim(
    uuid, boolean, text, text, int, interval, interval, text[], text[], bigint[], timestamptz[], text, bytea, bigint
);
