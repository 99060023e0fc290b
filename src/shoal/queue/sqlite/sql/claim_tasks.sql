-- The first tasks of some lanes, as [lane, place, attempts so far]. :wanted = [[lane, how many], ...].
-- Each step seeks the next place of its lane, so that exactly the tasks asked for are read.
WITH RECURSIVE front (lane, count, place) AS (
    SELECT value ->> 0, value ->> 1, (SELECT min(place) FROM ready WHERE lane = value ->> 0)
    FROM json_each(:wanted)
    UNION ALL
    SELECT lane, count - 1, (SELECT min(place) FROM ready WHERE lane = front.lane AND place > front.place)
    FROM front WHERE count > 1 AND place IS NOT NULL
)
SELECT json_group_array(json_array(ready.lane, ready.place, ready.attempt))
FROM front CROSS JOIN ready ON ready.lane = front.lane AND ready.place = front.place
