-- For "did you mean": a thousand names are enough.
SELECT json_group_array(id) FROM (SELECT id FROM run ORDER BY no DESC LIMIT 1000)
