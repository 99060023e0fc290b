-- Delete some of the data of a forgotten run: leases first, because they count against the limits of hosts, then host queues, then seen
-- keys, then the rest. Everything is found through the run's own lists, and large keys are freed in the background. ARGV  4 number
-- Returns whether something may be left.

local BATCH = 500
local number = tonumber(ARGV[4])
local R = P .. number .. ':'

local function purge_leases()
    local ids = call('ZRANGE', R .. 'deadlines', 0, BATCH - 1)
    local freed = {}
    for _, value in ipairs(read_fields(R .. 'leases', ids)) do
        if value then
            local _, token, _, _, _, _, _, host = unpack_limit(value, 7, 1)
            if host ~= '' then
                freed[host] = freed[host] or {}
                table.insert(freed[host], token)
            end
        end
    end
    free_hosts(freed, {})
    call_chunked('HDEL', R .. 'leases', ids)
    call_chunked('ZREM', R .. 'deadlines', ids)
    write_host_limits()
    return #ids > 0
end

local function purge_host_queues_of(host)
    for _, host_queue in ipairs(call('SMEMBERS', P .. 'host_queues:' .. host)) do
        local place = floor(host_queue / 10)
        if floor(place / 65536) == number then
            call('UNLINK', R .. 'q:' .. (place % 65536) .. ':' .. (host_queue % 10) .. ':' .. host)
            call('SREM', P .. 'host_queues:' .. host, host_queue)
        end
    end
end

local function purge_host_queues()
    local hosts = call('LPOP', R .. 'visited', BATCH) or {}
    for _, host in ipairs(hosts) do
        purge_host_queues_of(host)
    end
    return #hosts > 0
end

if purge_leases() or purge_host_queues() or unlink_buckets(R .. 'seen', BATCH) then
    return 1
end
purge_host_queues_of('')
for _, step_group in ipairs(call('HKEYS', R .. 'names')) do
    for priority = 0, 9 do
        call('UNLINK', R .. 'due:' .. step_group .. ':' .. priority)
    end
end
for _, name in ipairs({'step_groups', 'names', 'due_lists', 'leases', 'deadlines', 'bodies', 'delayed', 'expiring', 'seen', 'items',
                       'rejects', 'dead', 'dead_order', 'expired', 'dropped', 'counters', 'hosts', 'visited', 'workers', 'beats', 'outbox',
                       'delivered'}) do
    call('UNLINK', R .. name)
end
call('SREM', P .. 'outboxes', number)
call('HDEL', P .. 'purging', number)
return 0
