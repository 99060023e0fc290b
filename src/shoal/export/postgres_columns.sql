-- The columns of table $1, and for a domain the type behind it. Types come without a length: cut to it by a cast, a text would lose
-- its end in silence, while an insert refuses it.
SELECT a.attname AS name, format_type(a.atttypid, -1) AS type, coalesce(b.typname, t.typname) AS base
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_type b ON b.oid = nullif(t.typbasetype, 0)
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
