-- Before a purge: some of what the run has on the river.

local R = P .. ARGV[4] .. ':'
local function drain_some()
    for _, lane in ipairs(call('SMEMBERS', R .. 'currents')) do
        local section, priority = floor(lane / 10), lane % 10
        local key = R .. 'afloat:' .. section .. ':' .. priority
        -- Not HSCAN: it begins with buckets that the last call has emptied, and may find nothing in them.
        local hosts = call('HRANDFIELD', key, 500)
        for _, host in ipairs(hosts) do
            call('SREM', P .. 'river:' .. host, lane_number({number = tonumber(ARGV[4])}, section, priority))
        end
        tell('HDEL', key, hosts)
        if call('EXISTS', key) == 0 then
            call('UNLINK', R .. 'thirst:' .. section .. ':' .. priority)
            call('SREM', R .. 'currents', lane)
        end
        return true
    end
    call('UNLINK', R .. 'bundles', R .. 'sunk', R .. 'ebbing', R .. 'ways', R .. 'manifests', R .. 'landed', R .. 'empty', R .. 'lost',
         R .. 'lost_prints')
    return false
end
if drain_some() then
    return {1, {}, {}}
end
