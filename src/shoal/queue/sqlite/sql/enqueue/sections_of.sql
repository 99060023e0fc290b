-- The sections of some runs that belong to these steps.
SELECT json_group_array(id) FROM section
WHERE run IN (SELECT value FROM json_each(:runs)) AND step IN (SELECT value FROM json_each(:steps))
