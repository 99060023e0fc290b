-- For "did you mean": a thousand is enough to be helpful.
SELECT json_group_array(id) FROM (SELECT id FROM run ORDER BY no DESC LIMIT 1000)
