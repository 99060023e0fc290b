-- Tasks whose expiry is to be checked, as [lane, section, place, pending, delayed]. Those that still wait have expired,
-- unless a replay has given them a new time to live: that has a row of its own.
SELECT json_group_array(json_array(
    lane.id, lane.section, old.place,
    old.over AND EXISTS (SELECT 1 FROM ready WHERE ready.lane = lane.id AND ready.place = old.place),
    old.over AND EXISTS (SELECT 1 FROM delayed WHERE delayed.seq = old.seq)
))
FROM (
    SELECT task.seq, task.lane, (9 - task.priority) << 52 | task.seq AS place, task.expires_at = looked.at AS over
    FROM (SELECT at, seq FROM expiry WHERE run = :run AND at <= :now ORDER BY at, seq LIMIT :limit) looked
    CROSS JOIN task ON task.seq = looked.seq
) old
CROSS JOIN lane ON lane.id = old.lane
