-- The columns of table $1; for a domain, its base type. Types are returned without a length: a cast to the length would silently
-- truncate a text, while an insert rejects it.
SELECT a.attname AS name, format_type(a.atttypid, -1) AS type, coalesce(b.typname, t.typname) AS base
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_type b ON b.oid = nullif(t.typbasetype, 0)
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
