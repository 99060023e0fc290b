INSERT INTO expired (run, seq, expired_at)
SELECT :run, value & 0xfffffffffffff, :now FROM json_each(:places)
