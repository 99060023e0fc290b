-- State changes that are due by time alone, some at a time: the reclaim of expired leases (visibility_timeout), delays that are over,
-- and tasks that expire.

local BATCH = 500
local MAX_LOST_LEASES = 250

local function due_ids(run, set)
    return call('ZRANGEBYSCORE', run.R .. set, '-inf', digits(now), 'LIMIT', '0', BATCH)
end

-- Delays that are over: the tasks become pending. Returns how many were read.
local function promote(run)
    local ids, removed = due_ids(run, 'delayed'), {}
    for i, body in ipairs(read_fields(run.R .. 'bodies', ids)) do
        if body then
            local at, step_group, priority, expires, host = unpack_limit(body, 4, 0)
            count(host, step_group, DELAYED, -1)
            if expires == 0 then
                removed[#removed + 1] = ids[i]
            end
            enter(host, step_group, priority, body:sub(at + 1), expires, 0)
        end
    end
    call_chunked('HDEL', run.R .. 'bodies', removed)
    call_chunked('ZREM', run.R .. 'delayed', ids)
    return #ids
end

-- Times to live that are over: the tasks are listed as expired. Their ids in a host queue are void, and a claim that reaches them removes
-- them.
local function expire(run)
    local ids, listed = due_ids(run, 'expiring'), {}
    for i, body in ipairs(read_fields(run.R .. 'bodies', ids)) do
        if body then
            local at, step_group, priority, expires, host = unpack_limit(body, 4, 0)
            local was = call('ZREM', run.R .. 'delayed', ids[i]) == 1 and DELAYED or PENDING
            count(host, step_group, was, -1)
            count(host, step_group, EXPIRED, 1)
            listed[#listed + 1] = letter(step_group, priority, host, 0, expires, '', body:sub(at + 1))
        end
    end
    call_chunked('RPUSH', run.R .. 'expired', listed)
    call_chunked('HDEL', run.R .. 'bodies', ids)
    call_chunked('ZREM', run.R .. 'expiring', ids)
    return #ids
end

local function head_of(run, set)
    local head = call('ZRANGE', run.R .. set, 0, 0, 'WITHSCORES')
    return tonumber(head[2]) or huge
end

-- The reclaim of the lost leases of a run, which are expired leases: their deadline has passed. Returns how many.
local function end_lost_leases(run)
    local lost, tokens = call('ZRANGEBYSCORE', run.R .. 'deadlines', '-inf', now, 'LIMIT', 0, MAX_LOST_LEASES), {}
    for i, value in ipairs(read_fields(run.R .. 'leases', lost)) do
        local _, token = 0, 0
        if value then
            _, token = unpack_limit(value, 1, 1)
        end
        tokens[i] = token
    end
    local _, list, _, freed = finish(run, lost, tokens, function()
        return LOST, 'lease lost', 0
    end)
    free_hosts(freed, {})
    write_entered(run)
    write_dead(run)
    write_counts(run)
    local first = head_of(run, 'deadlines')
    if first < huge then
        call('ZADD', P .. 'next_lost', first, run.number)
    else
        call('ZREM', P .. 'next_lost', run.number)
    end
    return #list
end

-- The reclaim of the lost leases of all runs, because they count against the limits of hosts; some at a time.
local function end_lost_leases_of_all()
    for _, number in ipairs(call('ZRANGEBYSCORE', P .. 'next_lost', '-inf', digits(now), 'LIMIT', '0', '3')) do
        local run = run_numbered(number)
        if run then
            end_lost_leases(run)
        else
            call('ZREM', P .. 'next_lost', number)
        end
    end
end

-- Store when to process a run again.
local function schedule_run(run)
    local moment = min(head_of(run, 'delayed'), head_of(run, 'expiring'), head_of(run, 'deadlines'))
    if moment < huge then
        call('ZADD', P .. 'next_due', moment, run.number)
    else
        call('ZREM', P .. 'next_due', run.number)
    end
end

-- Expiry first: a task whose delay and whose time to live are both over expires.
local function apply_due_changes(run)
    local looked = max(expire(run), promote(run))
    write_entered(run)
    return looked == BATCH
end
