-- Before a purge: some of what the run has on the river.

local R = P .. ARGV[4] .. ':'
local function drain_some()
    for _, lane in ipairs(call('SMEMBERS', R .. 'currents')) do
        local section, priority = floor(lane / 10), lane % 10
        local key = R .. 'afloat:' .. section .. ':' .. priority
        local page, hosts = call('HSCAN', key, 0, 'COUNT', 500)[2], {}
        for i = 1, #page, 2 do
            hosts[#hosts + 1] = page[i]
            call('SREM', P .. 'river:' .. page[i], lane_number({number = tonumber(ARGV[4])}, section, priority))
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
