-- The first tasks of some lanes, as [lane, place, attempts so far]. :wanted = [[lane, how many], ...].
SELECT json_group_array(json_array(ready.lane, ready.place, ready.attempt))
FROM json_each(:wanted) w CROSS JOIN ready
WHERE ready.lane = w.value ->> 0
  AND ready.place <= ifnull(
      (SELECT place FROM ready WHERE lane = w.value ->> 0 ORDER BY place LIMIT 1 OFFSET (w.value ->> 1) - 1),
      0x7fffffffffffffff
  )
