-- How many items each task of a settlement yielded: `{}` for none at all, NULL if they were not counted.
ALTER TABLE shoal.done ADD COLUMN IF NOT EXISTS items int[];
