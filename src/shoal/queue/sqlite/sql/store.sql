-- The store itself: its clock and its size.

-- name: clock_read
SELECT latest, ahead FROM clock

-- name: clock_write
UPDATE clock SET latest = :latest, ahead = :ahead

-- name: store_size
-- In bytes: all pages of the file, and those that are free for reuse.
SELECT json_array(
    (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size),
    (SELECT freelist_count FROM pragma_freelist_count) * (SELECT page_size FROM pragma_page_size)
)
