-- A page of hosts: name, delay, pause, and the counts of one run or all. ARGV  4 run number ('' for all), 5 from, 6 maximum count

local page = call('LRANGE', ARGV[4] == '' and P .. 'hosts' or P .. ARGV[4] .. ':visited', ARGV[5], ARGV[5] + ARGV[6] - 1)
local numbers = ARGV[4] == '' and call('HVALS', P .. 'runs') or {ARGV[4]}
local rows = {}
load_host_limits(page)
for i, host in ipairs(page) do
    rows[i] = {host, max(host_limits[host].delay, host_limits[host].slowdown), host_limits[host].paused_until - now}
end
for _, number in ipairs(numbers) do
    for i, value in ipairs(read_fields(P .. number .. ':hosts', page)) do
        if value then
            table.insert(rows[i], unpack_all(value))
        end
    end
end
return pack(rows)
