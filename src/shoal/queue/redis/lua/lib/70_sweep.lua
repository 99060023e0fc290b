-- Moves that time alone calls for, some at a time.

local AT_ONCE = 500
local TAKE_BACK = 250

local function due_ids(run, set)
    return call('ZRANGEBYSCORE', run.R .. set, '-inf', now, 'LIMIT', 0, AT_ONCE)
end

-- Delays that are over: the tasks become pending. Returns how many were looked at.
local function promote(run)
    local ids, removed = due_ids(run, 'delayed'), {}
    for i, body in ipairs(read_fields(run.R .. 'bodies', ids)) do
        if body then
            local at, section, priority, expires, host = unpack_limit(body, 4, 0)
            count(host, section, DELAYED, -1)
            if expires == 0 then
                removed[#removed + 1] = ids[i]
            end
            enter(host, section, priority, body:sub(at + 1), expires, 0)
        end
    end
    tell('HDEL', run.R .. 'bodies', removed)
    tell('ZREM', run.R .. 'delayed', ids)
    return #ids
end

-- Times to live that are over: the tasks are listed as expired. What stands of them in a lane is void, and falls out
-- when a claim comes to it.
local function expire(run)
    local ids, listed = due_ids(run, 'expiry'), {}
    for i, body in ipairs(read_fields(run.R .. 'bodies', ids)) do
        if body then
            local at, section, priority, expires, host = unpack_limit(body, 4, 0)
            local was = call('ZREM', run.R .. 'delayed', ids[i]) == 1 and DELAYED or PENDING
            count(host, section, was, -1)
            count(host, section, EXPIRED, 1)
            listed[#listed + 1] = letter(section, priority, host, 0, expires, '', body:sub(at + 1))
        end
    end
    tell('RPUSH', run.R .. 'expired', listed)
    tell('HDEL', run.R .. 'bodies', ids)
    tell('ZREM', run.R .. 'expiry', ids)
    return #ids
end

local function head_of(run, set)
    local head = call('ZRANGE', run.R .. set, 0, 0, 'WITHSCORES')
    return tonumber(head[2]) or huge
end

-- Lost leases of a run end; returns how many did.
local function take_back(run)
    local lost, tokens = call('ZRANGEBYSCORE', run.R .. 'deadlines', '-inf', now, 'LIMIT', 0, TAKE_BACK), {}
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
        call('ZADD', P .. 'overdue', first, run.number)
    else
        call('ZREM', P .. 'overdue', run.number)
    end
    return #list
end

-- Lost leases of any run end, for they hold places at hosts; some at a time.
local function take_back_lost()
    for _, number in ipairs(call('ZRANGEBYSCORE', P .. 'overdue', '-inf', now, 'LIMIT', 0, 3)) do
        local run = run_numbered(number)
        if run then
            take_back(run)
        else
            call('ZREM', P .. 'overdue', number)
        end
    end
end

-- Note when to look at a run again.
local function note_moment(run)
    local moment = min(head_of(run, 'delayed'), head_of(run, 'expiry'), head_of(run, 'deadlines'))
    if moment < huge then
        call('ZADD', P .. 'moments', moment, run.number)
    else
        call('ZREM', P .. 'moments', run.number)
    end
end

-- Expiry goes first: a task whose delay and whose time are both over expires.
local function let_time_pass(run)
    local looked = max(expire(run), promote(run))
    write_entered(run)
    return looked == AT_ONCE
end
