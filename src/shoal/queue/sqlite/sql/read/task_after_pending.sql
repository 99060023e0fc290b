-- A page of pending tasks after a place in a lane, as [lane, place, seq]. Empty lanes and those of other runs are skipped.
SELECT json_group_array(json_array(lane, place, place & 0xfffffffffffff)) FROM (
    SELECT ready.lane, ready.place
    FROM lane CROSS JOIN ready ON ready.lane = lane.id AND ready.place > iif(lane.id = :first, :after, -1)
    WHERE lane.run = :run AND lane.id >= :first AND lane.pending > 0
      AND (:step IS NULL OR lane.section IN (SELECT id FROM section WHERE run = :run AND step = :step))
    ORDER BY lane.id, ready.place LIMIT :limit
)
