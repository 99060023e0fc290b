-- Purged runs whose rows are still being deleted: see 90_purge.sql. Also shoal.edit_dead (see 72_edit.sql).
CREATE TABLE IF NOT EXISTS shoal.purged (
    run int PRIMARY KEY
);
