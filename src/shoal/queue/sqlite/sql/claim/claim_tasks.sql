-- The first tasks of some lanes, as [lane's position in :wanted, place, attempts so far], by falling priority.
-- :wanted = [[lane, number of tasks], ...]. Each step seeks the next place of its lane, so that only those are read.
WITH RECURSIVE front (position, lane, count, place) AS (
    SELECT key, value ->> 0, value ->> 1, (SELECT min(place) FROM ready WHERE lane = value ->> 0)
    FROM json_each(:wanted)
    UNION ALL
    SELECT position, lane, count - 1, (SELECT min(place) FROM ready WHERE lane = front.lane AND place > front.place)
    FROM front WHERE count > 1 AND place IS NOT NULL
)
SELECT json_group_array(json_array(position, place, attempt)) FROM (
    SELECT front.position, ready.place, ready.attempt
    FROM front CROSS JOIN ready ON ready.lane = front.lane AND ready.place = front.place
    ORDER BY ready.place >> 52, front.position, ready.place
)
