-- Before a purge: delete some of what Redis knows of the run's tasks in the broker.

local R = P .. ARGV[4] .. ':'
local function purge_some()
    for _, host_queue in ipairs(call('SMEMBERS', R .. 'broker_lists')) do
        local step_group, priority = floor(host_queue / 10), host_queue % 10
        local key = R .. 'broker_tasks:' .. step_group .. ':' .. priority
        -- Not HSCAN: it starts with buckets that the last call emptied, and may return nothing from them.
        local hosts = call('HRANDFIELD', key, 500)
        for _, host in ipairs(hosts) do
            call('SREM', P .. 'broker_host_queues:' .. host, host_queue_number({number = tonumber(ARGV[4])}, step_group, priority))
        end
        call_chunked('HDEL', key, hosts)
        if call('EXISTS', key) == 0 then
            call('UNLINK', R .. 'broker_due:' .. step_group .. ':' .. priority)
            call('SREM', R .. 'broker_lists', host_queue)
        end
        return true
    end
    call('UNLINK', R .. 'bundles', R .. 'bundle_due', R .. 'bundle_expiry', R .. 'routes', R .. 'manifests', R .. 'received', R .. 'empty', R .. 'lost',
         R .. 'lost_fingerprints')
    return false
end
if purge_some() then
    return {1, {}, {}}
end
