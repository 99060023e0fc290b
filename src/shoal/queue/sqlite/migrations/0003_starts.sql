-- The starts on a host before the last one, as long as they may become the last again: [[start, delay], ...]. See starts.py.
ALTER TABLE host ADD COLUMN earlier TEXT NOT NULL DEFAULT '[]';
