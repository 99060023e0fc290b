-- The sections that match a claim's filters. :steps and :partitions are NULL or lists of names.
SELECT json_group_array(id) FROM section
WHERE run = :run
  AND (:steps IS NULL OR step IN (SELECT value FROM json_each(:steps)))
  AND (:partitions IS NULL OR partition IN (SELECT value FROM json_each(:partitions)))
