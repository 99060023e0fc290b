-- The token that was drawn last: no lease has a larger one.
SELECT last_value FROM shoal.token_seq
