-- Tasks that start to wait: collected one by one, written together.

local waiting = {}  -- host -> step group * 10 + priority -> elements
local bodies, delayed, expiry = {}, {}, {}
local soonest = huge

local ID = 18  -- the length of an element's head: of a task that may expire, a host queue holds only this

-- A task waits until `due`, if that is not zero, and at most until it expires.
local function enter(host, step_group, priority, element, expires, due)
    count(host, step_group, due > 0 and DELAYED or PENDING, 1)
    if due > 0 or expires > 0 then
        local id = element:sub(3, ID)
        bodies[#bodies + 1] = id
        bodies[#bodies + 1] = pack(step_group, priority, expires, host) .. element
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
    local host_queues = waiting[host]
    if not host_queues then
        host_queues = {}
        waiting[host] = host_queues
    end
    local host_queue = step_group * 10 + priority
    local elements = host_queues[host_queue]
    if not elements then
        elements = {}
        host_queues[host_queue] = elements
    end
    elements[#elements + 1] = expires > 0 and element:sub(1, ID) or element
end

-- Append tasks to a host queue; a host queue that becomes armed is added to `armed`: host queue -> moment and host, alternating.
local function write_host_queue(run, host, host_queue, elements, armed)
    local step_group, priority = floor(host_queue / 10), host_queue % 10
    local key = run.R .. 'q:' .. step_group .. ':' .. priority .. ':' .. host
    local length
    for from = 1, #elements, CHUNK do
        length = call('RPUSH', key, unpack(elements, from, min(from + CHUNK - 1, #elements)))
    end
    -- A host queue that was not empty is armed or parked already.
    if length == #elements then
        call('SADD', P .. 'host_queues:' .. host, host_queue_number(run, step_group, priority))
        local hosts = armed[host_queue] or {}
        armed[host_queue] = hosts
        hosts[#hosts + 1] = digits(now)
        hosts[#hosts + 1] = host
    end
end

local function write_entered(run)
    call_chunked('HSET', run.R .. 'bodies', bodies)
    call_chunked('ZADD', run.R .. 'delayed', delayed)
    call_chunked('ZADD', run.R .. 'expiring', expiry)
    local armed = {}
    for host, host_queues in pairs(waiting) do
        for host_queue, elements in pairs(host_queues) do
            write_host_queue(run, host, host_queue, elements, armed)
        end
    end
    for host_queue, hosts in pairs(armed) do
        call_chunked('ZADD', run.R .. 'due:' .. floor(host_queue / 10) .. ':' .. host_queue % 10, hosts)
        call('SADD', run.R .. 'due_lists', host_queue)
    end
    if soonest < huge then
        call('ZADD', P .. 'next_due', 'LT', soonest, run.number)
    end
    waiting, bodies, delayed, expiry, soonest = {}, {}, {}, {}, huge
end
