-- The last token assigned: no lease has a larger one.
SELECT last_value FROM shoal.token_seq
