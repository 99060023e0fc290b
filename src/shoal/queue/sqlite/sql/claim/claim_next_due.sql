-- The next time at which something of this run becomes claimable by time alone; NULL if there is none. Lanes are claimed :lead earlier.
SELECT min(due) FROM (
    SELECT (SELECT min(due) - :lead FROM lane WHERE run = :run AND priority = band.value AND due IS NOT NULL) AS due
    FROM json_each('[9,8,7,6,5,4,3,2,1,0]') band
    UNION ALL
    SELECT min(due) FROM delayed WHERE run = :run
)
