-- The limits of a run were changed: set the host queues of some of its hosts to the moment that they allow now. A host keeps the gap of its
-- last start, which may be of another run. One that equals the run's old delay becomes the new one, or a run that gets faster
-- would wait for its old delay once more. ARGV  4 number, 5 old delay, 6 from, 7 maximum count
-- Returns how many hosts there were.

local run, old = run_numbered(ARGV[4]), tonumber(ARGV[5])
if not run then
    return 0
end
local page = call('LRANGE', run.R .. 'visited', ARGV[6], ARGV[6] + ARGV[7] - 1)
allow_when_full()
load_host_limits(page)
for _, host in ipairs(page) do
    if host ~= '' then
        local limits = host_limits[host]
        if limits.last_gap == old and run.delay < old then
            limits.last_gap = run.delay
            changed_limits[host] = true
        end
        wake(host)
    end
end
write_host_limits()
return #page
