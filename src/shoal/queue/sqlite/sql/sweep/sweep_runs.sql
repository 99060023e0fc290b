-- The runs with a task that has expired, or whose delay is over.
SELECT json_group_array(no) FROM run
WHERE EXISTS (SELECT 1 FROM expiry WHERE expiry.run = run.no AND expiry.at <= :now)
   OR EXISTS (SELECT 1 FROM delayed WHERE delayed.run = run.no AND delayed.due <= :now)
