-- Host limits, the rate limit state of each host, and host queues. A host queue is armed: it is in `due` with the moment at which its host may
-- get a request, never a later one. Or it is parked: its host has as many leases as its run allows, it is in no list, and the end of
-- a lease wakes it. Scripts run one at a time, so both are exact, and a claim visits a blocked host queue once.

local host_limits, changed_limits = {}, {}

local function load_host_limits(hosts)
    local missing = {}
    for _, host in ipairs(hosts) do
        if not host_limits[host] then
            missing[#missing + 1] = host
        end
    end
    for i, value in ipairs(read_fields(P .. 'host_limits', missing)) do
        local last_at, last_gap, delay, paused_until, parked, earlier, slowdown = 0, 0, 0, 0, 0, nil, nil
        if value and value ~= '' then
            last_at, last_gap, delay, paused_until, parked, earlier, slowdown = unpack_all(value)
        end
        host_limits[missing[i]] = {
            known = value, last_at = last_at, last_gap = last_gap, delay = delay, paused_until = paused_until, parked = parked,
            earlier = earlier or {}, slowdown = slowdown or 0,
        }
    end
end

local function host_limits_of(host)
    if not host_limits[host] then
        load_host_limits({host})
    end
    return host_limits[host]
end

-- Make sure that hosts are listed.
local function register_hosts(hosts)
    load_host_limits(hosts)
    local fresh, fields = {}, {}
    for _, host in ipairs(hosts) do
        if host ~= '' and not host_limits[host].known then
            host_limits[host].known = ''
            fresh[#fresh + 1] = host
            fields[#fields + 1] = host
            fields[#fields + 1] = ''
        end
    end
    call_chunked('HSET', P .. 'host_limits', fields)
    call_chunked('RPUSH', P .. 'hosts', fresh)
end

-- After a restart nothing is leased for the longest delay in use. A pause counts like a delay, up to a minute: more would stop the
-- whole fleet for too long.
local function note_longest_delay(delay, pause)
    local a_minute = 60000000
    local wanted = max(delay or 0, min(pause or 0, a_minute))
    if wanted > 0 and wanted > (tonumber(call('HGET', P .. 'meta', 'longest')) or 0) then
        call('HSET', P .. 'meta', 'longest', digits(wanted))
    end
end

local function write_host_limits()
    local fields = {}
    for host in pairs(changed_limits) do
        local limits = host_limits[host]
        fields[#fields + 1] = host
        fields[#fields + 1] = pack(limits.last_at, limits.last_gap, limits.delay, limits.paused_until, limits.parked, limits.earlier, limits.slowdown)
    end
    call_chunked('HSET', P .. 'host_limits', fields)
end

-- When the rate limit (rate_limit, DOWNLOAD_DELAY) of a host lets a run start a task, apart from the number of its leases.
local function free_at(limits, run)
    return max(limits.paused_until, limits.last_at + max(run.host_delay, limits.last_gap, limits.delay, limits.slowdown))
end

-- The starts on a host and their gaps, alternating, the latest last: an unused start is given back, and the one before it counts
-- again. Only starts of live leases can be given back. So of the old starts, the latest that cannot be given back is among the last
-- (live leases + 1), and all before it never count again.
local function starts_of(limits)
    local starts = {}
    for i, value in ipairs(limits.earlier) do
        starts[i] = value
    end
    table.insert(starts, limits.last_at)
    table.insert(starts, limits.last_gap)
    return starts
end

local function add_starts(limits, first, gap, given, live, run_gap)
    local starts, remaining = starts_of(limits), {}
    for i = max(1, #starts - 2 * live - 1), #starts do
        remaining[#remaining + 1] = starts[i]
    end
    for i = 0, given - 2 do
        remaining[#remaining + 1] = first + i * gap
        remaining[#remaining + 1] = run_gap
    end
    -- Where no gap is kept, no earlier start matters.
    limits.earlier = gap > 0 and remaining or {}
    limits.last_at, limits.last_gap = first + (given - 1) * gap, run_gap
end

-- What came before the first known start is unknown, so the first one stays.
local function give_back(limits, start)
    local starts = starts_of(limits)
    for i = #starts - 1, 3, -2 do
        if starts[i] == start then
            table.remove(starts, i)
            table.remove(starts, i)
            break
        end
    end
    limits.last_gap, limits.last_at = table.remove(starts), table.remove(starts)
    limits.earlier = starts
end

local function host_queue_number(run, step_group, priority)
    return (run.number * 65536 + step_group) * 10 + priority
end

-- Collect every host queue of a host with the moment that its limits and its leases allow now: host queue -> its run, then moments and hosts.
local function collect_host_queues(host, armed)
    local limits, live = host_limits_of(host), call('SCARD', P .. 'live:' .. host)
    local parked = 0
    for _, host_queue in ipairs(call('SMEMBERS', P .. 'host_queues:' .. host)) do
        local moments = armed[host_queue]
        if not moments then
            moments = {run = run_numbered(floor(host_queue / 655360))}
            armed[host_queue] = moments
        end
        local run = moments.run
        if run and live < run.per_host then
            moments[#moments + 1] = digits(max(now, free_at(limits, run)))
            moments[#moments + 1] = host
        elseif run then
            parked = 1
        end
    end
    if limits.parked ~= parked then
        limits.parked = parked
        changed_limits[host] = true
    end
end

-- Set collected host queues to their moments.
local function arm(armed)
    for host_queue, moments in pairs(armed) do
        if #moments > 0 then
            local step_group, priority = floor(host_queue / 10) % 65536, host_queue % 10
            call_chunked('ZADD', moments.run.R .. 'due:' .. step_group .. ':' .. priority, moments)
            call('SADD', moments.run.R .. 'due_lists', step_group * 10 + priority)
        end
    end
end

-- Set every host queue of a host to the moment that its limits and its leases allow now.
local function wake(host)
    local armed = {}
    collect_host_queues(host, armed)
    arm(armed)
end

-- Leases of hosts have ended: tokens by host. Wake the host queues that waited for it.
local function free_hosts(tokens, treated)
    local hosts, armed = {}, {}
    for host in pairs(tokens) do
        hosts[#hosts + 1] = host
    end
    load_host_limits(hosts)
    for host, ended in pairs(tokens) do
        call_chunked('SREM', P .. 'live:' .. host, ended)
        if host_limits[host].parked == 1 and not treated[host] then
            collect_host_queues(host, armed)
        end
    end
    arm(armed)
end
