-- Tasks that start to wait: collected one by one, written together.

local waiting = {}  -- host -> section * 10 + priority -> elements
local bodies, delayed, expiry = {}, {}, {}
local soonest = huge

local ID = 18  -- the length of an element's head: of a task that may expire, a lane holds only this

-- A task waits until `due`, if that is not zero, and at most until it expires.
local function enter(host, section, priority, element, expires, due)
    count(host, section, due > 0 and DELAYED or PENDING, 1)
    if due > 0 or expires > 0 then
        local id = element:sub(3, ID)
        bodies[#bodies + 1] = id
        bodies[#bodies + 1] = pack(section, priority, expires, host) .. element
        if due > 0 then
            delayed[#delayed + 1] = due
            delayed[#delayed + 1] = id
            soonest = min(soonest, due)
        end
        if expires > 0 then
            expiry[#expiry + 1] = expires
            expiry[#expiry + 1] = id
            soonest = min(soonest, expires)
        end
    end
    if due > 0 then
        return
    end
    local lanes = waiting[host]
    if not lanes then
        lanes = {}
        waiting[host] = lanes
    end
    local lane = section * 10 + priority
    local elements = lanes[lane]
    if not elements then
        elements = {}
        lanes[lane] = elements
    end
    elements[#elements + 1] = expires > 0 and element:sub(1, ID) or element
end

-- Append tasks to a lane; a lane that becomes armed is added to `armed`: lane -> moment and host, alternating.
local function write_lane(run, host, lane, elements, armed)
    local section, priority = floor(lane / 10), lane % 10
    local key = run.R .. 'q:' .. section .. ':' .. priority .. ':' .. host
    local length
    for from = 1, #elements, CHUNK do
        length = call('RPUSH', key, unpack(elements, from, min(from + CHUNK - 1, #elements)))
    end
    -- A lane that was not empty is armed or parked already.
    if length == #elements then
        call('SADD', P .. 'lanes:' .. host, lane_number(run, section, priority))
        local hosts = armed[lane] or {}
        armed[lane] = hosts
        hosts[#hosts + 1] = digits(now)
        hosts[#hosts + 1] = host
    end
end

local function write_entered(run)
    call_chunked('HSET', run.R .. 'bodies', bodies)
    call_chunked('ZADD', run.R .. 'delayed', delayed)
    call_chunked('ZADD', run.R .. 'expiry', expiry)
    local armed = {}
    for host, lanes in pairs(waiting) do
        for lane, elements in pairs(lanes) do
            write_lane(run, host, lane, elements, armed)
        end
    end
    for lane, hosts in pairs(armed) do
        call_chunked('ZADD', run.R .. 'due:' .. floor(lane / 10) .. ':' .. lane % 10, hosts)
        call('SADD', run.R .. 'tracks', lane)
    end
    if soonest < huge then
        call('ZADD', P .. 'moments', 'LT', soonest, run.number)
    end
    waiting, bodies, delayed, expiry, soonest = {}, {}, {}, {}, huge
end
