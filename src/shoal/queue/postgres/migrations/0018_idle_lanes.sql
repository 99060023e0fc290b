-- Empty lanes that wait to be closed leave the index in which claims search tasks, and get their own (see 46_closing.sql).
-- The claims of the previous version run the new functions.
CREATE INDEX IF NOT EXISTS lane_ready ON shoal.lane (section, band, due_at) WHERE due_at IS NOT NULL AND idle IS NULL;
CREATE INDEX IF NOT EXISTS lane_idle ON shoal.lane (run, due_at) WHERE idle IS NOT NULL;
DROP INDEX IF EXISTS shoal.lane_due;
