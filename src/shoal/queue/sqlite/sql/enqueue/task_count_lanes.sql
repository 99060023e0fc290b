UPDATE lane SET pending = lane.pending + fresh.pending, delayed = lane.delayed + fresh.delayed
FROM (
    SELECT lane, count(*) FILTER (WHERE delay IS NULL) AS pending, count(delay) AS delayed
    FROM task WHERE seq > :last GROUP BY lane
) fresh
WHERE lane.id = fresh.lane
