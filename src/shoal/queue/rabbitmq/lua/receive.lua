-- Receive bundles from the broker: their tasks wait in Redis from now on. ARGV  4 run number, 5... the bundles
-- Safe to repeat: a received bundle is no longer in `bundles`. Returns the number of tasks of each: 0 for one that was received
-- before, -1 for one that Redis does not know, -2 for all of them when the run does not exist.

local run = run_numbered(ARGV[4])
local counts, left_broker, listed, routes = {}, {}, {}, {}
local RECEIVED_TTL = 600000000  -- microseconds for which a bundle is known to have been received

-- A task of a bundle that was given up is no longer counted. It enters unless it was enqueued again in the meantime.
local function receive_task(host, step_group, priority, expires, due, element, was_lost)
    if was_lost then
        if call('SREM', run.R .. 'lost_fingerprints', struct.unpack('>I4', element, 11)) == 0 then
            return
        end
    else
        count(host, step_group, due > 0 and DELAYED or PENDING, -1)
    end
    if due == 0 and not was_lost then
        local host_queue = step_group * 10 + priority
        left_broker[host_queue] = left_broker[host_queue] or {}
        left_broker[host_queue][host] = (left_broker[host_queue][host] or 0) + 1
    end
    if expires > 0 and expires <= now then
        count(host, step_group, EXPIRED, 1)
        listed[#listed + 1] = letter(step_group, priority, host, 0, expires, '', element)
    elseif due > now then
        enter(host, step_group, priority, element, expires, due)
    else
        enter_in_redis(host, step_group, priority, element, expires, 0)
    end
end

local function receive(body)
    local name = redis.sha1hex(body)
    -- Free something first: a full server would refuse the rest.
    local was_lost, route = false, tonumber(call('HGET', run.R .. 'bundles', name))
    if route then
        call('HDEL', run.R .. 'bundles', name)
        routes[route] = true
    else
        if call('ZSCORE', run.R .. 'received', name) then
            return 0
        end
        was_lost = call('SREM', run.R .. 'lost', name) == 1
        if not was_lost then
            return -1
        end
    end
    call('HDEL', run.R .. 'manifests', name)
    call('ZADD', run.R .. 'received', now, name)
    call('ZREM', run.R .. 'bundle_due', name)
    call('ZREM', run.R .. 'bundle_expiry', name)
    call('HDEL', P .. 'outgoing', name)
    call('ZREM', P .. 'unsent', name)
    local at, header = unpack_limit(body, 1, 1)
    local _, _, _, hosts, step_groups, _, host_of, step_group_of, priorities, expires, dues, sizes = unpack(header)
    local from = at + 6
    for i, size in ipairs(sizes) do
        receive_task(hosts[host_of[i]], step_groups[step_group_of[i]], priorities[i], expires[i] or 0, dues[i] or 0,
                  body:sub(from, from + size - 1), was_lost)
        from = from + size
    end
    return #sizes
end

local function write_left_broker(host_queue, by_host)
    local step_group, priority = floor(host_queue / 10), host_queue % 10
    local key = run.R .. 'broker_tasks:' .. step_group .. ':' .. priority
    local empty = {}
    for host, number in pairs(by_host) do
        if call('HINCRBY', key, host, -number) <= 0 then
            empty[#empty + 1] = host
            call('SREM', P .. 'broker_host_queues:' .. host, host_queue_number(run, step_group, priority))
        end
    end
    call_chunked('HDEL', key, empty)
    call_chunked('ZREM', run.R .. 'broker_due:' .. step_group .. ':' .. priority, empty)
    if call('EXISTS', key) == 0 then
        call('SREM', run.R .. 'broker_lists', host_queue)
    end
end

-- Counts that are all zero need not be written.
local function drop_zeros(rows)
    for name, row in pairs(rows) do
        local is_zero = true
        for _, number in ipairs(row) do
            is_zero = is_zero and number == 0
        end
        if is_zero then
            rows[name] = nil
        end
    end
end

for i = 5, #ARGV do
    counts[#counts + 1] = run and receive(ARGV[i]) or -2
end
if not run then
    return counts
end
call('ZREMRANGEBYSCORE', run.R .. 'received', '-inf', now - RECEIVED_TTL)
call_chunked('RPUSH', run.R .. 'expired', listed)
for host_queue, by_host in pairs(left_broker) do
    write_left_broker(host_queue, by_host)
end
losses.note_received(run, routes)
write_entered(run)
drop_zeros(step_group_counts)
drop_zeros(host_counts)
write_counts(run)
return counts
