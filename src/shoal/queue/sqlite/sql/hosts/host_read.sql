-- A page of hosts after the name :after, and the last name read. Without a run, the counts are of all
-- runs, and a host without tasks is listed while it has a pause or a delay of its own.
SELECT json_array(
    max(name),
    json_group_array(json_array(
        name, delay, paused_until, json_array(pending, delayed, leased, completed, dead, expired, dropped, items, rejected)
    )) FILTER (WHERE tasks > 0 OR :run IS NULL AND (delay > 0 OR paused_until > :now))
)
FROM (
    SELECT page.name, max(page.delay, page.slowdown) AS delay, page.paused_until,
        ifnull(sum(lane.pending), 0) AS pending, ifnull(sum(lane.delayed), 0) AS delayed,
        ifnull(sum(lane.leased), 0) AS leased, ifnull(sum(lane.completed), 0) AS completed,
        ifnull(sum(lane.dead), 0) AS dead, ifnull(sum(lane.expired), 0) AS expired,
        ifnull(sum(lane.dropped), 0) AS dropped, ifnull(sum(lane.items), 0) AS items,
        ifnull(sum(lane.rejected), 0) AS rejected,
        ifnull(sum(lane.pending + lane.delayed + lane.leased + lane.completed
            + lane.dead + lane.expired + lane.dropped), 0) AS tasks
    FROM (SELECT * FROM host WHERE name > :after ORDER BY name LIMIT :limit) page
    LEFT JOIN lane ON lane.host = page.id
        AND iif(:run IS NULL, lane.run IN (SELECT no FROM run), lane.run = :run)
    GROUP BY page.name
)
