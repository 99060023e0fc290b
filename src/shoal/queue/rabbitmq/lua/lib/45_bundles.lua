-- Pending and delayed tasks whose bodies are in RabbitMQ, in bundles. Redis counts them per host queue, so that it decides everything
-- without their bodies; a bundle is received when a host that may start a request has no task left in Redis.
-- Tasks in Redis are stored as by the plain Redis queue: this file is loaded between its libraries and shadows what must differ.
--
-- Of the shard                         P = {shoal:0}:
--   broker_host_queues:H  intset   the host queues of host H that have tasks in the broker, numbered like those of `host_queues:H`
--   outgoing          hash     bundle -> its route, run and body, until RabbitMQ has confirmed it
--   unsent            zset     bundle -> when it was made or last sent
--   meta              hash     field store: the name that the broker queues of this store contain
-- Of a run                             R = {shoal:0}:N:
--   broker_lists      intset   step group * 10 + priority of every `broker_tasks` that is not empty
--   broker_tasks:S:B  hash     host -> number of its tasks in the broker; S a step group, B a priority
--   broker_due:S:B    zset     host -> when to look at its host queue in the broker, like `due:S:B`
--   routes            intset   every route that was used: a purge deletes their queues
--   bundles           hash     bundle -> its route
--   bundle_due        zset     bundle -> its first due time;   bundle_expiry  zset  bundle -> its first expiry
--   manifests         hash     bundle -> the fingerprints of its tasks; of delayed ones also their hosts and step groups
--   received          zset     bundle -> when it was received, until its message is acknowledged
--   empty             hash     route -> since when the broker has had nothing on it that Redis expects, and whether it is closed for new tasks
--   lost              set      bundles that the broker has lost;   lost_fingerprints  intset  of their tasks, until they enter again
--
-- A bundle is named by the SHA-1 of its body, so that only what was sent is received, and once. Its route is 0 to 9 for the
-- queue of that priority, FIRST_WAIT + n for the queue that holds messages for 10 * 2^n seconds, DEAD_LETTERS for dead letters.

local FIRST_WAIT, LAST_WAIT, DEAD_LETTERS = 10, 26, 99
local MIN_WAIT = 10000000  -- microseconds; a task that is due sooner stays in Redis
local MAX_TASKS, MAX_BYTES = 250, 262144

local open_bundles, full_bundles, outgoing = {}, {}, {}
local closed_routes = {}  -- for new tasks, until it is known which bundles are lost
local entered_broker = {}  -- step group * 10 + priority -> host -> number of tasks that go to the broker
local to_broker = false
local enter_in_redis, write_entered_in_redis = enter, write_entered

local function route_of(priority, due)
    if due == 0 then
        return priority
    end
    local wait, route = MIN_WAIT, FIRST_WAIT
    while route < LAST_WAIT and wait * 2 <= due - now do
        wait, route = wait * 2, route + 1
    end
    return route
end

local function close_bundle(route)
    full_bundles[#full_bundles + 1] = open_bundles[route]
    open_bundles[route] = nil
end

local function add_to_bundle(route, host, step_group, priority, element, expires, due)
    local bundle = open_bundles[route]
    if not bundle then
        bundle = {
            route = route, hosts = {}, step_groups = {}, host_at = {}, step_group_at = {}, host_of = {}, step_group_of = {}, priorities = {},
            expires = {}, dues = {}, sizes = {}, elements = {}, bytes = 0, due = huge, expiry = huge,
        }
        open_bundles[route] = bundle
    end
    if not bundle.host_at[host] then
        bundle.hosts[#bundle.hosts + 1] = host
        bundle.host_at[host] = #bundle.hosts
    end
    if not bundle.step_group_at[step_group] then
        bundle.step_groups[#bundle.step_groups + 1] = step_group
        bundle.step_group_at[step_group] = #bundle.step_groups
    end
    local n = #bundle.elements + 1
    bundle.host_of[n], bundle.step_group_of[n], bundle.priorities[n] = bundle.host_at[host], bundle.step_group_at[step_group], priority
    bundle.expires[n], bundle.dues[n], bundle.sizes[n], bundle.elements[n] = expires, due, #element, element
    bundle.due = due > 0 and min(bundle.due, due) or bundle.due
    bundle.expiry = expires > 0 and min(bundle.expiry, expires) or bundle.expiry
    bundle.bytes = bundle.bytes + #element
    if n >= MAX_TASKS or bundle.bytes >= MAX_BYTES then
        close_bundle(route)
    end
end

local function enter_in_broker(host, step_group, priority, element, expires, due)
    count(host, step_group, due > 0 and DELAYED or PENDING, 1)
    add_to_bundle(route_of(priority, due), host, step_group, priority, element, expires, due)
    if due == 0 then
        local host_queue = step_group * 10 + priority
        entered_broker[host_queue] = entered_broker[host_queue] or {}
        entered_broker[host_queue][host] = (entered_broker[host_queue][host] or 0) + 1
    end
end

-- New tasks and long delays go to the broker. A task that returns for another reason is needed soon and stays in Redis.
local function enter(host, step_group, priority, element, expires, due)
    if due - now >= MIN_WAIT or (to_broker and due == 0 and not closed_routes[priority]) then
        enter_in_broker(host, step_group, priority, element, expires, due)
    else
        enter_in_redis(host, step_group, priority, element, expires, due)
    end
end

local function arm_in_broker(run, host, step_group, priority, at)
    call('ZADD', run.R .. 'broker_due:' .. step_group .. ':' .. priority, at, host)
end

local function write_entered_broker(run)
    for host_queue, hosts in pairs(entered_broker) do
        local step_group, priority = floor(host_queue / 10), host_queue % 10
        local key = run.R .. 'broker_tasks:' .. step_group .. ':' .. priority
        call('SADD', run.R .. 'broker_lists', host_queue)
        for host, number in pairs(hosts) do
            -- A host queue that was not empty is armed or parked already.
            if call('HINCRBY', key, host, number) == number then
                call('SADD', P .. 'broker_host_queues:' .. host, host_queue_number(run, step_group, priority))
                arm_in_broker(run, host, step_group, priority, now)
            end
        end
    end
    entered_broker = {}
end

-- Store a body to publish to RabbitMQ, and return its name.
local function note_outgoing(run, route, body)
    local name = redis.sha1hex(body)
    call('HSET', P .. 'outgoing', name, pack(route, run.number, run.id) .. body)
    call('ZADD', P .. 'unsent', now, name)
    call('SADD', run.R .. 'routes', route)
    outgoing[#outgoing + 1] = {name, route, run.number, run.id, body}
    return name
end

-- What Redis keeps of a bundle, so that it can give it up without its body. A fingerprint is four bytes of a task's key.
local function manifest(bundle)
    local fingerprints = {}
    for i, element in ipairs(bundle.elements) do
        fingerprints[i] = element:sub(11, 14)
    end
    fingerprints = table.concat(fingerprints)
    if bundle.due == huge then
        return pack(fingerprints)
    end
    return pack(fingerprints, bundle.hosts, bundle.step_groups, bundle.host_of, bundle.step_group_of)
end

local function write_bundle(run, bundle)
    local names = read_fields(run.R .. 'names', bundle.step_groups)
    local elements = table.concat(bundle.elements)
    local header = {
        run.id, run.number, now, bundle.hosts, bundle.step_groups, names, bundle.host_of, bundle.step_group_of, bundle.priorities,
        bundle.expiry < huge and bundle.expires or {}, bundle.due < huge and bundle.dues or {}, bundle.sizes,
    }
    local name = note_outgoing(run, bundle.route, '\146' .. pack(header) .. '\198' .. struct.pack('>I4', #elements) .. elements)
    call('HSET', run.R .. 'bundles', name, bundle.route)
    call('HSET', run.R .. 'manifests', name, manifest(bundle))
    if bundle.due < huge then
        call('ZADD', run.R .. 'bundle_due', bundle.due, name)
    end
    if bundle.expiry < huge then
        call('ZADD', run.R .. 'bundle_expiry', bundle.expiry, name)
    end
    if min(bundle.due, bundle.expiry) < huge then
        call('ZADD', P .. 'next_due', 'LT', min(bundle.due, bundle.expiry), run.number)
    end
end

local function write_entered(run)
    write_entered_in_redis(run)
    for route in pairs(open_bundles) do
        full_bundles[#full_bundles + 1] = open_bundles[route]
    end
    for _, bundle in ipairs(full_bundles) do
        write_bundle(run, bundle)
    end
    open_bundles, full_bundles = {}, {}
    write_entered_broker(run)
end

-- Set the host queues of a host in the broker to the moment that its limits and its leases allow now.
local wake_in_redis, free_hosts_in_redis = wake, free_hosts
local function wake_in_broker(host)
    local limits, live = host_limits_of(host), call('SCARD', P .. 'live:' .. host)
    for _, host_queue in ipairs(call('SMEMBERS', P .. 'broker_host_queues:' .. host)) do
        local run_step_group = floor(host_queue / 10)
        local run = run_numbered(floor(run_step_group / 65536))
        if run and live < run.per_host then
            arm_in_broker(run, host, run_step_group % 65536, host_queue % 10, max(now, free_at(limits, run)))
        elseif run and limits.parked == 0 then
            limits.parked = 1
            changed_limits[host] = true
        end
    end
end

local function wake(host)
    wake_in_redis(host)
    wake_in_broker(host)
end

local function free_hosts(tokens, treated)
    local hosts, waiting = {}, {}
    for host in pairs(tokens) do
        hosts[#hosts + 1] = host
    end
    load_host_limits(hosts)
    for _, host in ipairs(hosts) do
        if host_limits[host].parked == 1 and not treated[host] then
            waiting[#waiting + 1] = host
        end
    end
    free_hosts_in_redis(tokens, treated)
    for _, host in ipairs(waiting) do
        wake_in_broker(host)
    end
end
