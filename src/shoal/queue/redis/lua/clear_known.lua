-- Delete some of a set of keys that is no longer read. ARGV  4 its number. Returns whether something may be left.

return unlink_buckets(P .. 'known:' .. ARGV[4], 500) and 1 or 0
