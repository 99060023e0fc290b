-- The host queues of a run at a page of its hosts. ARGV  4 run number, 5 first host, 6 maximum number of hosts. Host 0 stands for
-- tasks without a host, 1 is the first host of the run.
-- Returns how many hosts there were, and position, step group, priority and host of each host queue, in this order.

local number, from, hosts = tonumber(ARGV[4]), tonumber(ARGV[5]), {}
local last = from + ARGV[6] - 2
if from == 0 then
    hosts[1] = ''
end
for _, host in ipairs(last >= 0 and call('LRANGE', P .. ARGV[4] .. ':visited', max(0, from - 1), last) or {}) do
    hosts[#hosts + 1] = host
end
local host_queues = {}
for i, host in ipairs(hosts) do
    local held = {}
    for _, host_queue in ipairs(call('SMEMBERS', P .. 'host_queues:' .. host)) do
        if floor(host_queue / 655360) == number then
            held[#held + 1] = host_queue % 655360
        end
    end
    table.sort(held)
    for _, host_queue in ipairs(held) do
        host_queues[#host_queues + 1] = {from + i - 1, floor(host_queue / 10), host_queue % 10, host}
    end
end
return {#hosts, host_queues}
