-- In bytes: all pages of the file, and those that are free for reuse.
SELECT json_array(
    (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size),
    (SELECT freelist_count FROM pragma_freelist_count) * (SELECT page_size FROM pragma_page_size)
)
