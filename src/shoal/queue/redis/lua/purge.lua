-- Delete some of the data of a forgotten run: leases first, because they count against the limits of hosts, then lanes, then seen
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
    write_gates()
    return #ids > 0
end

local function purge_lanes_of(host)
    for _, lane in ipairs(call('SMEMBERS', P .. 'lanes:' .. host)) do
        local place = floor(lane / 10)
        if floor(place / 65536) == number then
            call('UNLINK', R .. 'q:' .. (place % 65536) .. ':' .. (lane % 10) .. ':' .. host)
            call('SREM', P .. 'lanes:' .. host, lane)
        end
    end
end

local function purge_lanes()
    local hosts = call('LPOP', R .. 'visited', BATCH) or {}
    for _, host in ipairs(hosts) do
        purge_lanes_of(host)
    end
    return #hosts > 0
end

if purge_leases() or purge_lanes() or unlink_buckets(R .. 'seen', BATCH) then
    return 1
end
purge_lanes_of('')
for _, track in ipairs(call('HKEYS', R .. 'names')) do
    for priority = 0, 9 do
        call('UNLINK', R .. 'due:' .. track .. ':' .. priority)
    end
end
for _, name in ipairs({'sections', 'names', 'tracks', 'leases', 'deadlines', 'bodies', 'delayed', 'expiry', 'seen', 'items',
                       'rejects', 'dead', 'graves', 'expired', 'dropped', 'tally', 'hosts', 'visited', 'workers', 'beats', 'outbox',
                       'delivered'}) do
    call('UNLINK', R .. name)
end
call('SREM', P .. 'sending', number)
call('HDEL', P .. 'purging', number)
return 0
