INSERT INTO delayed (seq, run, due, lane, place, attempt)
SELECT seq, run, :now + delay, lane, (9 - priority) << 52 | seq, 0 FROM task WHERE seq > :last AND delay IS NOT NULL
