-- The first :count tasks of each lane, as [lane's position in :lanes, place, attempts so far], the highest priority first.
SELECT json_group_array(json_array(position, place, attempt)) FROM (
    SELECT meant.key AS position, ready.place, ready.attempt
    FROM json_each(:lanes) meant CROSS JOIN ready
    WHERE ready.lane = meant.value
      AND ready.place IN (SELECT place FROM ready WHERE lane = meant.value ORDER BY place LIMIT :count)
    ORDER BY ready.place >> 52, position, ready.place
)
