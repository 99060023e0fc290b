-- A claim wants bundles of a route, and the broker has none. ARGV  4 run number, 5 route
-- Returns how many tasks were given up, and in how many microseconds to check again, -1 for never.

local run = run_numbered(ARGV[4])
if not run then
    return {0, -1}
end
return {losses.found_empty(run, tonumber(ARGV[5]))}
