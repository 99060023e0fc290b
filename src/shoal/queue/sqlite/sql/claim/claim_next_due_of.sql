-- Like claim_next_due.sql, for the sections :sections only. Delayed tasks are not distinguished by section: a claim
-- that comes too early is cheap.
SELECT min(due) FROM (
    SELECT (SELECT min(due) - :lead FROM lane WHERE section = part.value AND priority = band.value AND due IS NOT NULL) AS due
    FROM json_each('[9,8,7,6,5,4,3,2,1,0]') band CROSS JOIN json_each(:sections) part
    UNION ALL
    SELECT min(due) FROM delayed WHERE run = :run
)
