-- Gates and lanes. A gate is the rate limit state of a host. A lane is armed: it is in `due` with the moment at which its host may
-- get a request, never a later one. Or it is parked: its host has as many leases as its run allows, it is in no list, and the end of
-- a lease wakes it. Scripts run one at a time, so both are exact, and a claim visits a blocked lane once.

local gates, changed_gates = {}, {}

local function load_gates(hosts)
    local missing = {}
    for _, host in ipairs(hosts) do
        if not gates[host] then
            missing[#missing + 1] = host
        end
    end
    for i, value in ipairs(read_fields(P .. 'gates', missing)) do
        local last_at, last_gap, delay, paused_until, parked, earlier, slowdown = 0, 0, 0, 0, 0, nil, nil
        if value and value ~= '' then
            last_at, last_gap, delay, paused_until, parked, earlier, slowdown = unpack_all(value)
        end
        gates[missing[i]] = {
            known = value, last_at = last_at, last_gap = last_gap, delay = delay, paused_until = paused_until, parked = parked,
            earlier = earlier or {}, slowdown = slowdown or 0,
        }
    end
end

local function gate_of(host)
    if not gates[host] then
        load_gates({host})
    end
    return gates[host]
end

-- Make sure that hosts are listed.
local function register_hosts(hosts)
    load_gates(hosts)
    local fresh, fields = {}, {}
    for _, host in ipairs(hosts) do
        if host ~= '' and not gates[host].known then
            gates[host].known = ''
            fresh[#fresh + 1] = host
            fields[#fields + 1] = host
            fields[#fields + 1] = ''
        end
    end
    call_chunked('HSET', P .. 'gates', fields)
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

local function write_gates()
    local fields = {}
    for host in pairs(changed_gates) do
        local gate = gates[host]
        fields[#fields + 1] = host
        fields[#fields + 1] = pack(gate.last_at, gate.last_gap, gate.delay, gate.paused_until, gate.parked, gate.earlier, gate.slowdown)
    end
    call_chunked('HSET', P .. 'gates', fields)
end

-- When a run may start a task of a host, apart from the number of its leases.
local function free_at(gate, run)
    return max(gate.paused_until, gate.last_at + max(run.delay, gate.last_gap, gate.delay, gate.slowdown))
end

-- The starts on a host and their gaps, alternating, the latest last: an unused start is given back, and the one before it counts
-- again. Only starts of live leases can be given back. So of the old starts, the latest that cannot be given back is among the last
-- (live leases + 1), and all before it never count again.
local function starts_of(gate)
    local starts = {}
    for i, value in ipairs(gate.earlier) do
        starts[i] = value
    end
    table.insert(starts, gate.last_at)
    table.insert(starts, gate.last_gap)
    return starts
end

local function add_starts(gate, first, gap, given, live, run_gap)
    local starts, remaining = starts_of(gate), {}
    for i = max(1, #starts - 2 * live - 1), #starts do
        remaining[#remaining + 1] = starts[i]
    end
    for i = 0, given - 2 do
        remaining[#remaining + 1] = first + i * gap
        remaining[#remaining + 1] = run_gap
    end
    -- Where no gap is kept, no earlier start matters.
    gate.earlier = gap > 0 and remaining or {}
    gate.last_at, gate.last_gap = first + (given - 1) * gap, run_gap
end

-- What came before the first known start is unknown, so the first one stays.
local function give_back(gate, start)
    local starts = starts_of(gate)
    for i = #starts - 1, 3, -2 do
        if starts[i] == start then
            table.remove(starts, i)
            table.remove(starts, i)
            break
        end
    end
    gate.last_gap, gate.last_at = table.remove(starts), table.remove(starts)
    gate.earlier = starts
end

local function lane_number(run, section, priority)
    return (run.number * 65536 + section) * 10 + priority
end

-- Collect every lane of a host with the moment that its gate and its leases allow now: lane -> its run, then moments and hosts.
local function collect_lanes(host, armed)
    local gate, live = gate_of(host), call('SCARD', P .. 'live:' .. host)
    local parked = 0
    for _, lane in ipairs(call('SMEMBERS', P .. 'lanes:' .. host)) do
        local moments = armed[lane]
        if not moments then
            moments = {run = run_numbered(floor(lane / 655360))}
            armed[lane] = moments
        end
        local run = moments.run
        if run and live < run.per_host then
            moments[#moments + 1] = digits(max(now, free_at(gate, run)))
            moments[#moments + 1] = host
        elseif run then
            parked = 1
        end
    end
    if gate.parked ~= parked then
        gate.parked = parked
        changed_gates[host] = true
    end
end

-- Set collected lanes to their moments.
local function arm(armed)
    for lane, moments in pairs(armed) do
        if #moments > 0 then
            local section, priority = floor(lane / 10) % 65536, lane % 10
            call_chunked('ZADD', moments.run.R .. 'due:' .. section .. ':' .. priority, moments)
            call('SADD', moments.run.R .. 'tracks', section * 10 + priority)
        end
    end
end

-- Set every lane of a host to the moment that its gate and its leases allow now.
local function wake(host)
    local armed = {}
    collect_lanes(host, armed)
    arm(armed)
end

-- Leases of hosts have ended: tokens by host. Wake the lanes that waited for it.
local function free_hosts(tokens, treated)
    local hosts, armed = {}, {}
    for host in pairs(tokens) do
        hosts[#hosts + 1] = host
    end
    load_gates(hosts)
    for host, ended in pairs(tokens) do
        call_chunked('SREM', P .. 'live:' .. host, ended)
        if gates[host].parked == 1 and not treated[host] then
            collect_lanes(host, armed)
        end
    end
    arm(armed)
end
