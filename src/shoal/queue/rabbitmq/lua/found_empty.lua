-- A claim wants bundles of a way, and the broker has none. ARGV  4 run number, 5 way
-- Answers how many tasks were given up, and in how many microseconds to look again, -1 for not at all.

local run = run_numbered(ARGV[4])
if not run then
    return {0, -1}
end
return {losses.found_empty(run, tonumber(ARGV[5]))}
