INSERT INTO ready (lane, place, attempt)
SELECT lane, (9 - priority) << 52 | seq, 0 FROM task WHERE seq > :last AND delay IS NULL
