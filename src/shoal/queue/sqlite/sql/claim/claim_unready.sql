DELETE FROM ready WHERE (lane, place) IN (SELECT lane, place FROM lease WHERE token > :last)
