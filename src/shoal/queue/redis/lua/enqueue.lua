-- Let tasks into a run. ARGV  4 run, 5 columns, 6 the moment from which times count ('' for now), 7... elements
-- Answers how many were new, and how many another run has queued.

local run = run_named(ARGV[4])
if not run then
    return unknown(ARGV[4])
end
local told = remembered()
if told then
    return unpacked(told)
end
local added, known_before = put(run, unpacked(ARGV[5]), 7, nil, tonumber(ARGV[6]) or now)
write_entered(run)
write_counts(run)
if added > 0 then
    remember(pack({added, known_before}))
end
forget_acked()
return {added, known_before}
