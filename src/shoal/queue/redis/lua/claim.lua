-- Lease tasks whose hosts may get a request now.
--
-- The due lists (step group, priority) are processed from the highest priority down, and in each the host queues that are due, the longest
-- waiting first. A host queue yields what its host allows. Then it is set to the moment when the host allows more, or parked until a
-- lease of its host ends, or removed when it is empty: no host queue is visited twice in vain. So the tasks of a host are leased in
-- strict order of priority, because all its host queues in a run are due at the same moment.
--
-- A claim with a lead takes what it would take that much later, and so are its starts: while it does, `now` is ahead by the lead.
--
-- ARGV  4 run, 5 worker, 6 limit (0 only reads), 7 lease, 8 horizon of a burst, 9 lowest priority, 10 steps, partitions, fence
-- (topic, key and stamp of a note; nothing is leased unless the note still has the stamp) and lead
-- Returns {next_due, drained, more, highest priority due, remaining, moves (tasks that ever entered or were sent), outbox,
-- names of step groups, now, outdated, whether delivered tasks must be delivered once more, slowed hosts and their delays}, and
-- the leases in groups: what the leases of a group share, then the element of each, whose token is one higher than the one before.

local worker, wanted, lease_time, horizon, lowest = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local lead = unpack_all(ARGV[10])[4] or 0
local SHARE = 25  -- tasks of one host queue at a time where no gap is kept, so that other host queues get their turn
local MAX_HOST_QUEUES = 100
local looks = 400 + 4 * wanted  -- host queues to visit in one call, so that it stays short
local voids = 500  -- expired tasks to remove from host queues in one call
local REDELIVER_AFTER = 10000000  -- microseconds after which delivered tasks are delivered once more

local run = run_named(ARGV[4])
if not run then
    return unknown(ARGV[4])
end

local more, hold, is_cluster = false, 0, false
local groups, leased, taken_bodies = {}, 0, {}

-- A restarted or promoted server may have lost its last second, and with it starts on hosts, the last of them up to a burst ahead:
-- nothing is leased until that and the longest delay in use have passed.
local function must_hold()
    local server = server_id()
    local meta = call('HMGET', P .. 'meta', 'server', 'hold', 'longest', 'shards')
    hold, is_cluster = tonumber(meta[2]) or 0, meta[4] ~= '1'
    if meta[1] ~= server then
        local longest = tonumber(meta[3]) or 0
        hold = meta[1] and longest > 0 and now + horizon + lead + longest or 0
        call('HSET', P .. 'meta', 'server', server, 'hold', digits(hold))
    end
    return hold > now
end

-- The step groups that the claim selects, nil for all.
local function selected_step_groups()
    local steps, partitions = unpack(unpack_all(ARGV[10]))
    if not steps and not partitions then
        return nil
    end
    local function set(names)
        local found = {}
        for _, name in ipairs(names) do
            found[name] = true
        end
        return found
    end
    steps, partitions = steps and set(steps), partitions and set(partitions)
    local selected, names = {}, call('HGETALL', run.R .. 'names')
    for i = 1, #names, 2 do
        local step, partition = names[i + 1]:match('^(%Z*)%z(%Z*)$')
        if (not steps or steps[step]) and (not partitions or partitions[partition]) then
            selected[tonumber(names[i])] = true
        end
    end
    return selected
end

local function due_lists_of(selected)
    local due_lists = {}
    for _, code in ipairs(call('SMEMBERS', run.R .. 'due_lists')) do
        local step_group, priority = floor(code / 10), code % 10
        if not selected or selected[step_group] then
            local place = step_group .. ':' .. priority
            due_lists[#due_lists + 1] = {
                step_group = step_group, priority = priority, key = run.R .. 'due:' .. place, host_queues = run.R .. 'q:' .. place .. ':',
            }
        end
    end
    -- Step groups take turns, by the clock, so that none always comes first.
    table.sort(due_lists, function(one, other)
        if one.priority ~= other.priority then
            return one.priority > other.priority
        end
        return (one.step_group + now) % 65537 < (other.step_group + now) % 65537
    end)
    return due_lists
end

-- What the rate limit of a host, and its concurrency (per_host), allow in this claim.
local hosts = {['']  = {name = '', room = huge, gap = 0, free = 0, live = -huge, given = 0}}
local function open(name)
    local host = hosts[name]
    if not host then
        local limits = host_limits[name]
        host = {name = name, gap = max(run.host_delay, limits.delay, limits.slowdown), free = free_at(limits, run), live = 0, room = 0, given = 0}
        if host.free <= now then
            host.live = call('SCARD', P .. 'live:' .. name)
            host.room = max(0, min(run.per_host - host.live, host.gap > 0 and ceil(horizon / host.gap) or huge))
        end
        hosts[name] = host
    end
    return host
end

-- Lease a task. Leases that follow each other and differ in nothing but their task are one group: where no gap is kept, those of a
-- host queue are. The first place of a group is for what they share.
local function lease(due_list, host, element, expires)
    local start = (host.name == '' and now - lead or now) + host.given * host.gap
    local group = groups[#groups]
    if not group or group.host ~= host or group.start ~= start or group.due_list ~= due_list or group.expires ~= expires then
        group = {false, due_list = due_list, host = host, start = start, expires = expires}
        groups[#groups + 1] = group
    end
    group[#group + 1] = element
    host.given = host.given + 1
    host.room = host.room - 1
    wanted = wanted - 1
    leased = leased + 1
end

-- The body of a task that may expire, nil if it has.
local function body_of(id)
    local body = call('HGET', run.R .. 'bodies', id)
    if body then
        local at, _, _, expires = unpack_limit(body, 3, 0)
        if expires > now then
            taken_bodies[#taken_bodies + 1] = id
            at = unpack_limit(body, 4, 0)
            return body:sub(at + 1), expires
        end
    end
    return nil, 0
end

-- Take up to `limit` tasks from a host queue; return whether something is left in it. Expired tasks are removed, some at a time, so that
-- a million of them do not make one call long: the next call continues.
local function take(due_list, host, limit)
    local key = due_list.host_queues .. host.name
    local until_left = wanted - limit
    while wanted > until_left do
        if voids <= 0 then
            more, looks = true, 0
            break
        end
        local count_wanted = wanted - until_left
        local elements = call('LPOP', key, count_wanted) or {}
        for _, element in ipairs(elements) do
            local expires = 0
            if #element == ID then
                local id = element:sub(3)
                element, expires = body_of(id)
            end
            if element then
                lease(due_list, host, element, expires)
            else
                voids = voids - 1
            end
        end
        if #elements < count_wanted then
            return false
        end
    end
    return call('EXISTS', key) == 1
end

-- Visit host queues of a due list, and set, park or remove each afterwards.
local function visit(due_list, names)
    local again, gone = {}, {}
    for _, name in ipairs(names) do
        local host = open(name)
        local limit, left = min(host.room, wanted, host.gap == 0 and SHARE or huge), true
        looks = looks - 1
        if limit > 0 then
            local before = wanted
            left = take(due_list, host, limit)
            if wanted < before then
                count(name, due_list.step_group, PENDING, wanted - before)
                count(name, due_list.step_group, LEASED, before - wanted)
            end
        end
        if not left then
            gone[#gone + 1] = name
            call('SREM', P .. 'host_queues:' .. name, digits(host_queue_number(run, due_list.step_group, due_list.priority)))
        elseif host.free <= now and host.live + host.given >= run.per_host then
            gone[#gone + 1] = name
            host_limits[name].parked = 1
            changed_limits[name] = true
        else
            again[#again + 1] = digits(host.given > 0 and now + host.given * host.gap or max(now, host.free))
            again[#again + 1] = name
        end
        if wanted == 0 or voids <= 0 then
            break
        end
    end
    call_chunked('ZADD', due_list.key, again)
    call_chunked('ZREM', due_list.key, gone)
end

local function claim_due_lists(due_lists)
    local share = run.host_delay == 0 and SHARE or ceil(horizon / run.host_delay)
    for _, due_list in ipairs(due_lists) do
        while wanted > 0 and due_list.priority >= lowest do
            if looks <= 0 then
                more = true
                return
            end
            -- As many host queues as needed if each yields its share; if they yield less, more in the next round.
            local host_queues = min(MAX_HOST_QUEUES, ceil(wanted / share) + 2)
            local before, names = wanted, call('ZRANGEBYSCORE', due_list.key, '-inf', digits(now), 'LIMIT', '0', host_queues)
            if #names == 0 then
                break
            end
            load_host_limits(names)
            visit(due_list, names)
            share = max(1, min(share, ceil((before - wanted) / #names)))
        end
    end
end

-- The first value of a group: an array of what its leases share and the array of their tasks, which the client completes.
local function head_of_group(token, step_group, priority, start, deadline, host, tasks)
    return '\151' .. pack(token, step_group, priority, start, deadline, host) .. '\221' .. struct.pack('>I4', tasks)
end

-- Write the leases of a group, and put what they share in its first place. Lua reads every byte of every string that it makes: so a
-- lease is joined once, and its token, which differs from the one before in the last byte, is packed again only when that overflows.
local function write_group(group, token, ids, fields, deadlines, tokens)
    local step_group, priority, start, name = group.due_list.step_group, group.due_list.priority, group.start, group.host.name
    local deadline, beginning = digits(start + lease_time), nil
    local shared = pack(step_group, priority, start, start + lease_time, group.expires, name, worker)
    local n = #ids
    for i = 2, #group do
        local element, number = group[i], token + i - 2
        local id, last = element:sub(3, ID), number % 256
        if last == 0 or not beginning then
            beginning = '\157' .. pack(number):sub(1, -2)
        end
        n = n + 1
        ids[n] = id
        fields[2 * n - 1], fields[2 * n] = id, beginning .. char(last) .. shared .. element
        deadlines[2 * n - 1], deadlines[2 * n] = deadline, id
        tokens[#tokens + 1] = token_digits(number)
    end
    group[1] = head_of_group(token, step_group, priority, start, start + lease_time, name, #group - 1)
end

local function write_leases()
    if leased == 0 then
        return
    end
    local token, ids, fields, deadlines, live = draw('token', leased), {}, {}, {}, {}
    local receipt = digits(token)
    for _, group in ipairs(groups) do
        local name = group.host.name
        local tokens = live[name] or {}
        live[name] = tokens
        write_group(group, token, ids, fields, deadlines, tokens)
        token = token + #group - 1
    end
    live[''] = nil
    write_receipt(receipt .. table.concat(ids))
    call_chunked('HSET', run.R .. 'leases', fields)
    call_chunked('ZADD', run.R .. 'deadlines', deadlines)
    local first = digits(now - lead + lease_time)
    call('ZADD', P .. 'next_due', 'LT', first, run.number)
    call('ZADD', P .. 'next_lost', 'LT', first, run.number)
    for name, tokens in pairs(live) do
        local limits, host = host_limits[name], hosts[name]
        call_chunked('SADD', P .. 'live:' .. name, tokens)
        add_starts(limits, now, host.gap, host.given, host.live, run.host_delay)
        changed_limits[name] = true
    end
    count_worker(worker, W_LEASED, leased)
    call_chunked('HDEL', run.R .. 'bodies', taken_bodies)
    call_chunked('ZREM', run.R .. 'expiring', taken_bodies)
end

-- The first moment at which a host queue, a delay or a lost lease may yield a task, and the highest priority that is due.
local function next_due(due_lists, remaining)
    local due, highest = huge, -1
    for _, due_list in ipairs(due_lists) do
        local first = call('ZRANGE', due_list.key, 0, 0, 'WITHSCORES')
        if not first[2] then
            call('SREM', run.R .. 'due_lists', due_list.step_group * 10 + due_list.priority)
        else
            local at = tonumber(first[2])
            due = min(due, at)
            highest = at <= now and max(highest, due_list.priority) or highest
        end
    end
    due = min(due, head_of(run, 'delayed') + lead)
    if remaining > 0 then
        due = min(due, head_of(run, 'deadlines') + lead)
    end
    return due, highest
end

local function used_names()
    local names, step_groups = {}, {}
    for step_group in pairs(step_group_counts) do
        step_groups[#step_groups + 1] = step_group
    end
    for i, name in ipairs(read_fields(run.R .. 'names', step_groups)) do
        names[i] = {step_groups[i], name}
    end
    return names
end

-- The slowed hosts of the leases, as name and delay in microseconds.
local function slowed_hosts()
    local slowed = {}
    for name, host in pairs(hosts) do
        if name ~= '' and host.given > 0 and host_limits[name].slowdown > 0 then
            slowed[#slowed + 1] = {name, host_limits[name].slowdown}
        end
    end
    return slowed
end

-- The leases of a claim whose reply was lost, as far as they are still live.
local function repeated(receipt)
    local found, step_groups, ids_leased = {}, {}, {}
    local first = tonumber(receipt:sub(1, 16))
    for at = 17, #receipt, 16 do
        ids_leased[#ids_leased + 1] = receipt:sub(at, at + 15)
    end
    for i, value in ipairs(read_fields(run.R .. 'leases', ids_leased)) do
        local at, token, step_group, priority, start, deadline, _, host
        if value then
            at, token, step_group, priority, start, deadline, _, host = unpack_limit(value, 8, 1)
        end
        if value and token == first + i - 1 then
            found[#found + 1] = {head_of_group(token, step_group, priority, start, deadline, host, 1), value:sub(at + 1)}
            step_groups[step_group] = true
        end
    end
    step_group_counts = step_groups
    local names = used_names()
    step_group_counts = {}
    return pack({0, false, false, -1, 1, 0, 0, names, now}), found
end

local receipt = read_receipt()
if receipt then
    return {repeated(receipt)}
end

local fence = unpack_all(ARGV[10])[3]
if fence and notes.stamp(fence[1], fence[2]) ~= fence[3] then
    write_empty_receipt()
    return {pack({-1, false, false, -1, 0, 0, 0, {}, now, true}), {}}
end

local state = call('HMGET', P .. 'run:' .. run.number, 'remaining', 'entered')
if run.state ~= 'running' then
    write_empty_receipt()
    return {pack({-1, run.state == 'cancelled' or run.state == 'partial', false, -1, tonumber(state[1]), tonumber(state[2]), 0, {}, now}), {}}
end

local due_lists, names = {}, {}
allow_when_full()
record_clock()
end_lost_leases_of_all()
more = apply_due_changes(run)
local is_held = must_hold()
now = now + lead
if not is_held then
    due_lists = due_lists_of(selected_step_groups())
    claim_due_lists(due_lists)
    write_leases()
    names = used_names()
end
write_counts(run)
write_host_limits()
state = call('HMGET', P .. 'run:' .. run.number, 'remaining', 'entered', 'sent')
local remaining, moves = tonumber(state[1]), tonumber(state[2]) + (tonumber(state[3]) or 0)
local outbox, redelivers = 0, false
if is_cluster then
    outbox = call('XLEN', run.R .. 'outbox')
    redelivers = #call('XRANGE', run.R .. 'delivered', '-', digits(max(0, floor((now - REDELIVER_AFTER) / 1000))), 'COUNT', 1) > 0
end
local due, highest = -1, -1
if wanted > 0 or ARGV[6] == '0' then
    due, highest = next_due(due_lists, remaining)
    due = is_held and hold + lead or due
    due = due < huge and max(0, due - now) or -1
else
    due = 0
end
if leased == 0 then
    write_empty_receipt()
end
delete_acked_receipt()
now = now - lead
return {
    pack({due, leased == 0 and remaining == 0 and outbox == 0, more, highest, remaining, moves, outbox, names, now, false, redelivers,
          slowed_hosts()}),
    groups,
}
