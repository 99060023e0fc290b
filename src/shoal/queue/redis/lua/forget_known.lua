-- Forget what the runs of a scraper have queued. ARGV  4 scraper
-- Returns how many keys were known, and the numbers of their sets, which clear_known.lua deletes; otherwise they expire.

local index, count, numbers = P .. 'dedup:' .. ARGV[4], 0, {}
for _, set in ipairs(known.read_index(index)) do
    for _, group in pairs(set.groups) do
        count = count + group.keys
    end
    numbers[#numbers + 1] = set.number
end
call('UNLINK', index)
return {count, numbers}
