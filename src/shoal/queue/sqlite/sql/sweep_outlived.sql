-- Tasks that are to be looked at, as [lane, section, place, pending, delayed]: those that still wait have outlived their time.
SELECT json_group_array(json_array(
    lane.id, lane.section, due.place,
    EXISTS (SELECT 1 FROM ready WHERE ready.lane = lane.id AND ready.place = due.place),
    EXISTS (SELECT 1 FROM delayed WHERE delayed.seq = due.seq)
))
FROM (
    SELECT task.seq, task.lane, (9 - task.priority) << 52 | task.seq AS place
    FROM (SELECT seq FROM expiry WHERE run = :run AND at <= :now ORDER BY at, seq LIMIT :limit) old
    CROSS JOIN task ON task.seq = old.seq
) due
CROSS JOIN lane ON lane.id = due.lane
