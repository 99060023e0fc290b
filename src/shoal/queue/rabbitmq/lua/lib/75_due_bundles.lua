-- When bundles must be received: because a host that may start a request has tasks only in the broker, or because they are due.

local RESEND_AFTER = 5000000  -- microseconds after which an unconfirmed bundle is sent again
local A_SECOND = 1000000
local MAX_LOOKS = 2000
local schedule_run_in_redis = schedule_run
local due_runs = {}  -- runs with due bundles: id, number, route

-- The route of the first bundle of a run that is due, -1 if there is none.
local function due_route(run)
    for _, set in ipairs({'bundle_due', 'bundle_expiry'}) do
        local first = call('ZRANGEBYSCORE', run.R .. set, '-inf', now, 'LIMIT', 0, 1)[1]
        if first then
            return tonumber(call('HGET', run.R .. 'bundles', first)) or -1
        end
    end
    return -1
end

local function first_bundle_time(run)
    return min(head_of(run, 'bundle_due'), head_of(run, 'bundle_expiry'))
end

local function schedule_run(run)
    schedule_run_in_redis(run)
    local moment = first_bundle_time(run)
    if moment <= now then
        due_runs[#due_runs + 1] = {run.id, run.number, due_route(run)}
        moment = now + A_SECOND
    end
    if moment < huge then
        call('ZADD', P .. 'next_due', 'LT', moment, run.number)
    end
end

local function has_overdue()
    return call('ZCOUNT', P .. 'unsent', '-inf', now - RESEND_AFTER) > 0
end

-- The step groups that a claim asks for; nil for all.
local function chosen_step_groups(run, packed)
    local steps, partitions = unpack(unpack_all(packed))
    if not steps and not partitions then
        return nil
    end
    local function has(list, name)
        for _, one in ipairs(list or {name}) do
            if one == name then
                return true
            end
        end
        return false
    end
    local chosen, names = {}, call('HGETALL', run.R .. 'names')
    for i = 1, #names, 2 do
        local step, partition = names[i + 1]:match('^(%Z*)%z(%Z*)$')
        chosen[tonumber(names[i])] = has(steps or nil, step) and has(partitions or nil, partition)
    end
    return chosen
end

-- Whether a host queue in the broker belongs to a host that may start a request now. If not, set it to the moment when it may, or park it.
local function is_wanted(run, key, host)
    if host == '' then
        return true
    end
    local limits = host_limits_of(host)
    local free = free_at(limits, run)
    if free > now then
        call('ZADD', key, free, host)
    elseif call('SCARD', P .. 'live:' .. host) >= run.per_host then
        call('ZREM', key, host)
        limits.parked = 1
        changed_limits[host] = true
    else
        return true
    end
    return false
end

-- A host whose task cannot be received at the moment gives none of lower priority either: its host queues in Redis are not due in this call.
local function hold_back(run, host, priority)
    for _, host_queue in ipairs(call('SMEMBERS', P .. 'host_queues:' .. host)) do
        local run_step_group = floor(host_queue / 10)
        if floor(run_step_group / 65536) == run.number and host_queue % 10 < priority then
            call('ZADD', run.R .. 'due:' .. (run_step_group % 65536) .. ':' .. (host_queue % 10), 'XX', now + 1, host)
        end
    end
end

-- Look at the due hosts of a due list in the broker; return whether a task of one is wanted now. Where the broker has nothing of this
-- priority, hold those hosts back instead, as long as they are few.
local function look_in_broker(run, key, priority, is_exhausted)
    local looks = MAX_LOOKS
    while looks > 0 do
        local page = is_exhausted and MAX_LOOKS or 25
        local hosts, wanted = call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, page), 0
        load_host_limits(hosts)
        for _, host in ipairs(hosts) do
            if is_wanted(run, key, host) then
                if not is_exhausted then
                    return true
                end
                wanted = wanted + 1
                hold_back(run, host, priority)
            end
        end
        if #hosts == wanted and #hosts < page then
            return false
        end
        looks = looks - #hosts
    end
    return true
end

-- The highest priority of which a host that may start a request now has tasks in the broker, -1 if there is none, and the first
-- moment at which one may. `exhausted` has a 1 for each priority of which the broker has nothing.
local function wanted_route(run, chosen, exhausted)
    local host_queues, first = {}, huge
    for _, host_queue in ipairs(call('SMEMBERS', run.R .. 'broker_lists')) do
        host_queue = tonumber(host_queue)
        if not chosen or chosen[floor(host_queue / 10)] then
            host_queues[#host_queues + 1] = host_queue
        end
    end
    table.sort(host_queues, function(one, other)
        return one % 10 > other % 10
    end)
    for _, host_queue in ipairs(host_queues) do
        local priority = host_queue % 10
        local key = run.R .. 'broker_due:' .. floor(host_queue / 10) .. ':' .. priority
        if look_in_broker(run, key, priority, exhausted:sub(priority + 1, priority + 1) == '1') then
            return priority, now
        end
        local head = call('ZRANGE', key, 0, 0, 'WITHSCORES')
        first = min(first, tonumber(head[2]) or huge)
    end
    return -1, first
end
