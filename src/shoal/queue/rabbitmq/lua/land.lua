-- Bundles come ashore: their tasks wait here from now on. ARGV  4 run number, 5... the bundles
-- Safe to repeat: a bundle that has come ashore is no longer on the river. Answers how many tasks each had, 0 for one that came
-- before, -1 for one that is not on the river, -2 for all when the run is not there.

local run = run_numbered(ARGV[4])
local counts, ebb, listed, ways = {}, {}, {}, {}
local LONGEST_KEPT = 600000000  -- microseconds for which it is remembered that a bundle came ashore

-- A task of a bundle that was given up is no longer counted, and enters unless it has entered again meanwhile.
local function land_task(host, section, priority, expires, due, element, was_lost)
    if was_lost then
        if call('SREM', run.R .. 'lost_prints', struct.unpack('>I4', element, 11)) == 0 then
            return
        end
    else
        count(host, section, due > 0 and DELAYED or PENDING, -1)
    end
    if due == 0 and not was_lost then
        local lane = section * 10 + priority
        ebb[lane] = ebb[lane] or {}
        ebb[lane][host] = (ebb[lane][host] or 0) + 1
    end
    if expires > 0 and expires <= now then
        count(host, section, EXPIRED, 1)
        listed[#listed + 1] = letter(section, priority, host, 0, expires, '', element)
    elseif due > now then
        enter(host, section, priority, element, expires, due)
    else
        enter_here(host, section, priority, element, expires, 0)
    end
end

local function land(body)
    local name = redis.sha1hex(body)
    -- Freeing something comes first: a full server would not let the rest happen.
    local was_lost, way = false, tonumber(call('HGET', run.R .. 'bundles', name))
    if way then
        call('HDEL', run.R .. 'bundles', name)
        ways[way] = true
    else
        if call('ZSCORE', run.R .. 'landed', name) then
            return 0
        end
        was_lost = call('SREM', run.R .. 'lost', name) == 1
        if not was_lost then
            return -1
        end
    end
    call('HDEL', run.R .. 'manifests', name)
    call('ZADD', run.R .. 'landed', now, name)
    call('ZREM', run.R .. 'sunk', name)
    call('ZREM', run.R .. 'ebbing', name)
    call('HDEL', P .. 'sailing', name)
    call('ZREM', P .. 'unsent', name)
    local at, header = unpack_limit(body, 1, 1)
    local _, _, _, hosts, sections, _, host_of, section_of, priorities, expires, dues, sizes = unpack(header)
    local from = at + 6
    for i, size in ipairs(sizes) do
        land_task(hosts[host_of[i]], sections[section_of[i]], priorities[i], expires[i] or 0, dues[i] or 0,
                  body:sub(from, from + size - 1), was_lost)
        from = from + size
    end
    return #sizes
end

local function write_ebb(lane, by_host)
    local section, priority = floor(lane / 10), lane % 10
    local key = run.R .. 'afloat:' .. section .. ':' .. priority
    local empty = {}
    for host, number in pairs(by_host) do
        if call('HINCRBY', key, host, -number) <= 0 then
            empty[#empty + 1] = host
            call('SREM', P .. 'river:' .. host, lane_number(run, section, priority))
        end
    end
    tell('HDEL', key, empty)
    tell('ZREM', run.R .. 'thirst:' .. section .. ':' .. priority, empty)
    if call('EXISTS', key) == 0 then
        call('SREM', run.R .. 'currents', lane)
    end
end

-- Counts that come to nothing need not be written.
local function drop_zeros(rows)
    for name, row in pairs(rows) do
        local is_zero = true
        for _, number in ipairs(row) do
            is_zero = is_zero and number == 0
        end
        if is_zero then
            rows[name] = nil
        end
    end
end

for i = 5, #ARGV do
    counts[#counts + 1] = run and land(ARGV[i]) or -2
end
if not run then
    return counts
end
call('ZREMRANGEBYSCORE', run.R .. 'landed', '-inf', now - LONGEST_KEPT)
tell('RPUSH', run.R .. 'expired', listed)
for lane, by_host in pairs(ebb) do
    write_ebb(lane, by_host)
end
losses.note_landing(run, ways)
write_entered(run)
drop_zeros(section_counts)
drop_zeros(host_counts)
write_counts(run)
return counts
