-- Delete some of a set of keys that nobody looks into any more. ARGV  4 its number. Answers whether something may be left.

return unlink_buckets(P .. 'known:' .. ARGV[4], 500) and 1 or 0
