-- How many items each task of a settlement yielded: `{}` for none at all, NULL where nobody counted.
ALTER TABLE shoal.done ADD COLUMN IF NOT EXISTS items int[];
