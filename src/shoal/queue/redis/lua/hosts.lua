-- A page of hosts: name, delay, pause, and the counts of one run or all. ARGV  4 run number ('' for all), 5 from, 6 maximum count

local page = call('LRANGE', ARGV[4] == '' and P .. 'hosts' or P .. ARGV[4] .. ':visited', ARGV[5], ARGV[5] + ARGV[6] - 1)
local numbers = ARGV[4] == '' and call('HVALS', P .. 'runs') or {ARGV[4]}
local rows = {}
load_host_limits(page)
for i, host in ipairs(page) do
    rows[i] = {host, max(host_limits[host].delay, host_limits[host].slowdown), host_limits[host].paused_until - now}
end
for _, number in ipairs(numbers) do
    local state = call('HGET', P .. 'run:' .. number, 'state')
    -- No worker does the tasks that wait in such a run: they count in its own list only.
    local has_ended = ARGV[4] == '' and (state == 'partial' or state == 'cancelled')
    for i, value in ipairs(read_fields(P .. number .. ':hosts', page)) do
        if value then
            local row = unpack_all(value)
            if has_ended then
                row[PENDING], row[DELAYED] = 0, 0
            end
            table.insert(rows[i], row)
        end
    end
end
return pack(rows)
