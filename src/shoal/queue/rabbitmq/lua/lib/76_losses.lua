-- Bundles that Redis expects and the broker does not have: somebody deleted them there, or this server lost what happened longer ago
-- than their messages were held. They are given up after a while, so that their hosts are free for other tasks, the run can end
-- and their tasks may enter again. In one table, because a script may have at most 200 local names.
--
-- A route is suspected when a claim wants what is on it and finds its queue empty. That alone means little: other workers may hold the
-- bundles for a moment. Delayed bundles that were due then are lost if they have not arrived two minutes later and the queue is
-- empty again. Of tasks that may start, Redis knows how many are in the broker per host queue, not in which bundle. So the route is closed,
-- new tasks stay in Redis, and once nothing has arrived on it for two minutes, everything left on it is lost.

local losses = {}
losses.AFTER = 120000000  -- microseconds; a message that a dead worker held returns within half a minute

-- Whether a route is closed for new tasks ('c') or only suspected ('s'), and since when.
function losses.read_empty(run, route)
    local value = call('HGET', run.R .. 'empty', route)
    if value then
        return value:sub(1, 1), tonumber(value:sub(2))
    end
    return nil, now
end

function losses.write(run, route, stage)
    call('HSET', run.R .. 'empty', route, stage .. digits(now))
end

function losses.has_tasks(run, priority)
    for _, host_queue in ipairs(call('SMEMBERS', run.R .. 'broker_lists')) do
        if host_queue % 10 == priority then
            return true
        end
    end
    return false
end

-- Bundles have arrived on these routes. A route on which nothing more is expected is no longer suspected; for a closed one the wait starts again.
function losses.note_received(run, routes)
    for _, route in ipairs(call('HKEYS', run.R .. 'empty')) do
        route = tonumber(route)
        if route < FIRST_WAIT and not losses.has_tasks(run, route) then
            call('HDEL', run.R .. 'empty', route)
        elseif routes[route] and losses.read_empty(run, route) == 'c' then
            losses.write(run, route, 'c')
        end
    end
end

-- The bundles of a route to give up; nil if one of them is not sent yet. Of delayed ones only those that were due by a moment.
function losses.candidates(run, route, due_by)
    local names = {}
    if route >= FIRST_WAIT then
        for _, set in ipairs({'bundle_due', 'bundle_expiry'}) do
            for _, name in ipairs(call('ZRANGEBYSCORE', run.R .. set, '-inf', due_by)) do
                names[name] = tonumber(call('HGET', run.R .. 'bundles', name)) == route or nil
            end
        end
    else
        local all = call('HGETALL', run.R .. 'bundles')
        for i = 1, #all, 2 do
            names[all[i]] = tonumber(all[i + 1]) == route or nil
        end
    end
    for name in pairs(names) do
        if call('HEXISTS', P .. 'outgoing', name) == 1 then
            return nil
        end
    end
    return names
end

function losses.forget_bundle(run, name, fingerprints)
    call('HDEL', run.R .. 'bundles', name)
    call('HDEL', run.R .. 'manifests', name)
    call('ZREM', run.R .. 'bundle_due', name)
    call('ZREM', run.R .. 'bundle_expiry', name)
    call('SADD', run.R .. 'lost', name)
    local numbers = {}
    for at = 1, #fingerprints, 4 do
        numbers[#numbers + 1] = struct.unpack('>I4', fingerprints, at)
    end
    call_chunked('SADD', run.R .. 'lost_fingerprints', numbers)
end

function losses.give_up_delayed(run, names)
    local lost = 0
    for name in pairs(names) do
        local packed = call('HGET', run.R .. 'manifests', name)
        if packed then  -- an earlier version wrote none
            local fingerprints, hosts, step_groups, host_of, step_group_of = unpack_all(packed)
            for i, at in ipairs(host_of or {}) do
                count(hosts[at], step_groups[step_group_of[i]], DELAYED, -1)
                lost = lost + 1
            end
            losses.forget_bundle(run, name, fingerprints)
        end
    end
    return lost
end

function losses.give_up_host_queue(run, step_group, priority)
    local key, lost = run.R .. 'broker_tasks:' .. step_group .. ':' .. priority, 0
    local hosts = call('HGETALL', key)
    for i = 1, #hosts, 2 do
        count(hosts[i], step_group, PENDING, -tonumber(hosts[i + 1]))
        lost = lost + tonumber(hosts[i + 1])
        call('SREM', P .. 'broker_host_queues:' .. hosts[i], host_queue_number(run, step_group, priority))
    end
    call('UNLINK', key, run.R .. 'broker_due:' .. step_group .. ':' .. priority)
    call('SREM', run.R .. 'broker_lists', step_group * 10 + priority)
    return lost
end

function losses.give_up_pending(run, route, names)
    local lost = 0
    for _, host_queue in ipairs(call('SMEMBERS', run.R .. 'broker_lists')) do
        if host_queue % 10 == route then
            lost = lost + losses.give_up_host_queue(run, floor(host_queue / 10), route)
        end
    end
    for name in pairs(names) do
        local packed = call('HGET', run.R .. 'manifests', name)
        losses.forget_bundle(run, name, packed and (unpack_all(packed)) or '')
    end
    return lost
end

-- The queue of a route is empty, and something was expected on it. Returns how many tasks are lost, and in how many microseconds to
-- check again, -1 for never.
function losses.found_empty(run, route)
    local stage, since = losses.read_empty(run, route)
    if route < FIRST_WAIT and not losses.has_tasks(run, route) then
        call('HDEL', run.R .. 'empty', route)
        return 0, -1
    elseif not stage then
        losses.write(run, route, 's')
        return 0, losses.AFTER
    elseif now - since < losses.AFTER then
        return 0, since + losses.AFTER - now
    elseif route < FIRST_WAIT and stage == 's' then
        losses.write(run, route, 'c')
        return 0, losses.AFTER
    end
    local names, lost = losses.candidates(run, route, since), 0
    if not names then
        losses.write(run, route, stage)
        return 0, losses.AFTER
    end
    call('HDEL', run.R .. 'empty', route)
    if next(names) then
        lost = route >= FIRST_WAIT and losses.give_up_delayed(run, names) or losses.give_up_pending(run, route, names)
        write_counts(run)
        call('HINCRBY', P .. 'run:' .. run.number, 'lost', lost)
    end
    return lost, -1
end
