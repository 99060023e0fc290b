-- When bundles must come ashore: because a host that may be asked has tasks only on the river, or because their time has come.

local REPEAT = 5000000  -- microseconds after which a bundle that nobody has confirmed is sent again
local A_SECOND = 1000000
local MOST_LOOKS = 2000
local note_moment_here = note_moment
local ashore = {}  -- runs with bundles whose time has come: number, way

-- The way of the first bundle of a run whose time has come, -1 if there is none.
local function tide(run)
    for _, set in ipairs({'sunk', 'ebbing'}) do
        local first = call('ZRANGEBYSCORE', run.R .. set, '-inf', now, 'LIMIT', 0, 1)[1]
        if first then
            return tonumber(call('HGET', run.R .. 'bundles', first)) or -1
        end
    end
    return -1
end

local function first_tide(run)
    return min(head_of(run, 'sunk'), head_of(run, 'ebbing'))
end

local function note_moment(run)
    note_moment_here(run)
    local moment = first_tide(run)
    if moment <= now then
        ashore[#ashore + 1] = {run.id, run.number, tide(run)}
        moment = now + A_SECOND
    end
    if moment < huge then
        call('ZADD', P .. 'moments', 'LT', moment, run.number)
    end
end

local function has_overdue()
    return call('ZCOUNT', P .. 'unsent', '-inf', now - REPEAT) > 0
end

-- The sections that a claim means, nil for all.
local function sections_meant(run, packed)
    local steps, partitions = unpack(unpacked(packed))
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
    local meant, names = {}, call('HGETALL', run.R .. 'names')
    for i = 1, #names, 2 do
        local step, partition = names[i + 1]:match('^(%Z*)%z(%Z*)$')
        meant[tonumber(names[i])] = has(steps or nil, step) and has(partitions or nil, partition)
    end
    return meant
end

-- Whether a lane on the river belongs to a host that may be asked now. If not, it is set to the moment when it may, or parked.
local function is_thirsty(run, key, host)
    if host == '' then
        return true
    end
    local gate = gate_of(host)
    local free = free_at(gate, run)
    if free > now then
        call('ZADD', key, free, host)
    elseif call('SCARD', P .. 'live:' .. host) >= run.per_host then
        call('ZREM', key, host)
        gate.parked = 1
        changed_gates[host] = true
    else
        return true
    end
    return false
end

-- A host whose task cannot be had at the moment gives none of lower priority either: its lanes here are not due in this call.
local function hold_back(run, host, priority)
    for _, lane in ipairs(call('SMEMBERS', P .. 'lanes:' .. host)) do
        local place = floor(lane / 10)
        if floor(place / 65536) == run.number and lane % 10 < priority then
            call('ZADD', run.R .. 'due:' .. (place % 65536) .. ':' .. (lane % 10), 'XX', now + 1, host)
        end
    end
end

-- Look at the hosts whose time has come in a lane of the river; returns whether one is thirsty. Where the broker has nothing for
-- this priority, thirsty hosts are held back instead, as long as they are few.
local function look_afloat(run, key, priority, is_dry)
    local looks = MOST_LOOKS
    while looks > 0 do
        local page = is_dry and MOST_LOOKS or 25
        local hosts, thirsty = call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, page), 0
        load_gates(hosts)
        for _, host in ipairs(hosts) do
            if is_thirsty(run, key, host) then
                if not is_dry then
                    return true
                end
                thirsty = thirsty + 1
                hold_back(run, host, priority)
            end
        end
        if #hosts == thirsty and #hosts < page then
            return false
        end
        looks = looks - #hosts
    end
    return true
end

-- The highest priority of which a host that may be asked now has tasks on the river, -1 if there is none, and the first moment
-- at which one may. `dry` has a 1 for each priority of which the broker has nothing.
local function thirst(run, meant, dry)
    local lanes, first = {}, huge
    for _, lane in ipairs(call('SMEMBERS', run.R .. 'currents')) do
        lane = tonumber(lane)
        if not meant or meant[floor(lane / 10)] then
            lanes[#lanes + 1] = lane
        end
    end
    table.sort(lanes, function(one, other)
        return one % 10 > other % 10
    end)
    for _, lane in ipairs(lanes) do
        local priority = lane % 10
        local key = run.R .. 'thirst:' .. floor(lane / 10) .. ':' .. priority
        if look_afloat(run, key, priority, dry:sub(priority + 1, priority + 1) == '1') then
            return priority, now
        end
        local head = call('ZRANGE', key, 0, 0, 'WITHSCORES')
        first = min(first, tonumber(head[2]) or huge)
    end
    return -1, first
end
