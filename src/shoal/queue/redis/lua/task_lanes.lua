-- The lanes of a run at a page of its hosts. ARGV  4 run number, 5 from which host, 6 most hosts
-- Answers how many hosts there were, and section, priority and host of each lane. Tasks without a host come with the first page.

local number, hosts = tonumber(ARGV[4]), call('LRANGE', P .. ARGV[4] .. ':visited', ARGV[5], ARGV[5] + ARGV[6] - 1)
local count, lanes = #hosts, {}
if ARGV[5] == '0' then
    hosts[#hosts + 1] = ''
end
for _, host in ipairs(hosts) do
    for _, lane in ipairs(call('SMEMBERS', P .. 'lanes:' .. host)) do
        local place = floor(lane / 10)
        if floor(place / 65536) == number then
            lanes[#lanes + 1] = {place % 65536, lane % 10, host}
        end
    end
end
return {count, lanes}
