-- The river: pending and delayed tasks whose bodies are in RabbitMQ, in bundles. Redis counts them, lane by lane, so that it
-- can judge everything without their bodies; a bundle comes ashore when a host that may be asked has nothing left here.
-- What is ashore is kept as on a plain Redis: this file stands between its libraries and shadows what must differ.
--
-- Of the shard                         P = {shoal:0}:
--   river:H     intset   the lanes of host H that have tasks on the river, numbered like those of `lanes:H`
--   sailing     hash     bundle -> where it goes, and itself, until RabbitMQ has confirmed it
--   unsent      zset     bundle -> when it was made or last sent
-- Of a run                             R = {shoal:0}:N:
--   currents    intset   section * 10 + priority of every `afloat` that holds something
--   afloat:S:B  hash     host -> tasks on the river; S a section, B a priority
--   thirst:S:B  zset     host -> when to look at its lane on the river, like `due:S:B`
--   ways        intset   every way that was taken: a purge deletes their queues
--   bundles     hash     bundle -> its way;   sunk  zset  bundle -> its first due time;   ebbing  zset  bundle -> its first expiry
--   manifests   hash     bundle -> the prints of its tasks; of delayed ones also their hosts and sections
--   landed      zset     bundle -> when it came ashore, until its message is acknowledged
--   empty       hash     way -> since when the broker has had nothing on it that Redis expects, and whether new tasks are kept off it
--   lost        set      bundles that the broker does not have any more;   lost_prints  intset  of their tasks, until they enter again
--
-- A bundle is named by the SHA-1 of its body, so that only what was sent comes ashore, and once. Its way is 0 to 9 for the
-- queue of that priority, FIRST_WAIT + n for the queue that holds messages for 10 * 2^n seconds, LETTERS for dead letters.

local FIRST_WAIT, LAST_WAIT, LETTERS = 10, 26, 99
local SHORTEST_WAIT = 10000000  -- microseconds; what is due sooner stays here
local BUNDLE, BUNDLE_BYTES = 250, 262144

local cargo, sealed, sailing = {}, {}, {}
local closed_ways = {}  -- for new tasks, while it is found out which bundles are lost
local surge = {}  -- section * 10 + priority -> host -> tasks that go afloat
local floating = false
local enter_here, write_entered_here = enter, write_entered

local function way_of(priority, due)
    if due == 0 then
        return priority
    end
    local wait, way = SHORTEST_WAIT, FIRST_WAIT
    while way < LAST_WAIT and wait * 2 <= due - now do
        wait, way = wait * 2, way + 1
    end
    return way
end

local function seal(way)
    sealed[#sealed + 1] = cargo[way]
    cargo[way] = nil
end

local function load(way, host, section, priority, element, expires, due)
    local bundle = cargo[way]
    if not bundle then
        bundle = {
            way = way, hosts = {}, sections = {}, host_at = {}, section_at = {}, host_of = {}, section_of = {}, priorities = {},
            expires = {}, dues = {}, sizes = {}, elements = {}, bytes = 0, due = huge, ebb = huge,
        }
        cargo[way] = bundle
    end
    if not bundle.host_at[host] then
        bundle.hosts[#bundle.hosts + 1] = host
        bundle.host_at[host] = #bundle.hosts
    end
    if not bundle.section_at[section] then
        bundle.sections[#bundle.sections + 1] = section
        bundle.section_at[section] = #bundle.sections
    end
    local n = #bundle.elements + 1
    bundle.host_of[n], bundle.section_of[n], bundle.priorities[n] = bundle.host_at[host], bundle.section_at[section], priority
    bundle.expires[n], bundle.dues[n], bundle.sizes[n], bundle.elements[n] = expires, due, #element, element
    bundle.due = due > 0 and min(bundle.due, due) or bundle.due
    bundle.ebb = expires > 0 and min(bundle.ebb, expires) or bundle.ebb
    bundle.bytes = bundle.bytes + #element
    if n >= BUNDLE or bundle.bytes >= BUNDLE_BYTES then
        seal(way)
    end
end

-- A task goes afloat.
local function float(host, section, priority, element, expires, due)
    count(host, section, due > 0 and DELAYED or PENDING, 1)
    load(way_of(priority, due), host, section, priority, element, expires, due)
    if due == 0 then
        local lane = section * 10 + priority
        surge[lane] = surge[lane] or {}
        surge[lane][host] = (surge[lane][host] or 0) + 1
    end
end

-- New tasks and long waits go afloat; what comes back for another reason is needed soon and stays.
local function enter(host, section, priority, element, expires, due)
    if due - now >= SHORTEST_WAIT or (floating and due == 0 and not closed_ways[priority]) then
        float(host, section, priority, element, expires, due)
    else
        enter_here(host, section, priority, element, expires, due)
    end
end

local function arm_river(run, host, section, priority, at)
    call('ZADD', run.R .. 'thirst:' .. section .. ':' .. priority, at, host)
end

local function write_surge(run)
    for lane, hosts in pairs(surge) do
        local section, priority = floor(lane / 10), lane % 10
        local key = run.R .. 'afloat:' .. section .. ':' .. priority
        call('SADD', run.R .. 'currents', lane)
        for host, number in pairs(hosts) do
            -- A lane that held something is armed or parked already.
            if call('HINCRBY', key, host, number) == number then
                call('SADD', P .. 'river:' .. host, lane_number(run, section, priority))
                arm_river(run, host, section, priority, now)
            end
        end
    end
    surge = {}
end

-- Note a body that RabbitMQ is to be handed, and return its name.
local function note_cargo(run, way, body)
    local name = redis.sha1hex(body)
    call('HSET', P .. 'sailing', name, pack(way, run.number, run.id) .. body)
    call('ZADD', P .. 'unsent', now, name)
    call('SADD', run.R .. 'ways', way)
    sailing[#sailing + 1] = {name, way, run.number, run.id, body}
    return name
end

-- What stays here of a bundle, so that it can be given up without its body. A print is four bytes of a task's key.
local function manifest(bundle)
    local prints = {}
    for i, element in ipairs(bundle.elements) do
        prints[i] = element:sub(11, 14)
    end
    prints = table.concat(prints)
    if bundle.due == huge then
        return pack(prints)
    end
    return pack(prints, bundle.hosts, bundle.sections, bundle.host_of, bundle.section_of)
end

local function write_bundle(run, bundle)
    local names = read_fields(run.R .. 'names', bundle.sections)
    local elements = table.concat(bundle.elements)
    local header = {
        run.id, run.number, now, bundle.hosts, bundle.sections, names, bundle.host_of, bundle.section_of, bundle.priorities,
        bundle.ebb < huge and bundle.expires or {}, bundle.due < huge and bundle.dues or {}, bundle.sizes,
    }
    local name = note_cargo(run, bundle.way, '\146' .. pack(header) .. '\198' .. struct.pack('>I4', #elements) .. elements)
    call('HSET', run.R .. 'bundles', name, bundle.way)
    call('HSET', run.R .. 'manifests', name, manifest(bundle))
    if bundle.due < huge then
        call('ZADD', run.R .. 'sunk', bundle.due, name)
    end
    if bundle.ebb < huge then
        call('ZADD', run.R .. 'ebbing', bundle.ebb, name)
    end
    if min(bundle.due, bundle.ebb) < huge then
        call('ZADD', P .. 'moments', 'LT', min(bundle.due, bundle.ebb), run.number)
    end
end

local function write_entered(run)
    write_entered_here(run)
    for way in pairs(cargo) do
        sealed[#sealed + 1] = cargo[way]
    end
    for _, bundle in ipairs(sealed) do
        write_bundle(run, bundle)
    end
    cargo, sealed = {}, {}
    write_surge(run)
end

-- Set the lanes of a host on the river to the moment that its gate and its leases allow now.
local wake_here, free_hosts_here = wake, free_hosts
local function wake_river(host)
    local gate, live = gate_of(host), call('SCARD', P .. 'live:' .. host)
    for _, lane in ipairs(call('SMEMBERS', P .. 'river:' .. host)) do
        local place = floor(lane / 10)
        local run = run_numbered(floor(place / 65536))
        if run and live < run.per_host then
            arm_river(run, host, place % 65536, lane % 10, max(now, free_at(gate, run)))
        elseif run and gate.parked == 0 then
            gate.parked = 1
            changed_gates[host] = true
        end
    end
end

local function wake(host)
    wake_here(host)
    wake_river(host)
end

local function free_hosts(tokens, treated)
    local hosts, waiting = {}, {}
    for host in pairs(tokens) do
        hosts[#hosts + 1] = host
    end
    load_gates(hosts)
    for _, host in ipairs(hosts) do
        if gates[host].parked == 1 and not treated[host] then
            waiting[#waiting + 1] = host
        end
    end
    free_hosts_here(tokens, treated)
    for _, host in ipairs(waiting) do
        wake_river(host)
    end
end
