-- New tasks, each key of a run once: a duplicate is dropped here.

local seen_groups = {}

local function seen_group(run, number)
    if not seen_groups[number] then
        seen_groups[number] = group_of(call('HGET', run.R .. 'seen', number))
    end
    return seen_groups[number]
end

-- Whether a key is known.
local function is_seen(run, element, key)
    local number = element:byte(10) % GROUPS
    return call('SISMEMBER', run.R .. 'seen:' .. number .. ':' .. bucket_of(seen_group(run, number), key), key) == 1
end

-- The dupefilter: store a key; false if it is known, as the task is a duplicate.
local function is_new(run, element, key)
    local number = element:byte(10) % GROUPS
    return add_key(run.R .. 'seen:' .. number .. ':', seen_group(run, number), key)
end

local function write_seen(run)
    local fields = {}
    for number, group in pairs(seen_groups) do
        fields[#fields + 1] = number
        fields[#fields + 1] = group.keys
    end
    call_chunked('HSET', run.R .. 'seen', fields)
end

-- The numbers of step groups; new step groups get one. The number of a host queue has room for 65,536.
local function step_group_numbers(run, names)
    local found = read_fields(run.R .. 'step_groups', names)
    for i, name in ipairs(names) do
        if not found[i] then
            found[i] = call('HLEN', run.R .. 'step_groups')
            if found[i] >= 65536 then
                error('a run can have 65,536 pairs of step and partition; use fewer partitions')
            end
            call('HSET', run.R .. 'step_groups', name, found[i])
            call('HSET', run.R .. 'names', found[i], name)
        end
        found[i] = tonumber(found[i])
    end
    return found
end

-- Store tasks for another shard, as outbox.py reads them.
local function send(run, shard, base, tasks)
    call('XADD', run.R .. 'outbox', '*', 'shard', shard, 'at', digits(base), 'tasks', tasks)
    call('SADD', P .. 'outboxes', run.number)
    call('HINCRBY', P .. 'run:' .. run.number, 'sent', 1)
end

local function parcel(host, step_group, key, priority, ttl, delay, element)
    return '\151' .. pack(host, step_group, key, priority, ttl, delay) .. '\198' .. struct.pack('>I4', #element) .. element
end

-- Add tasks: `columns` as records.py packs them, their elements in ARGV from `first`. Tasks of outcomes that were not accepted are
-- skipped, and so are those that another run has queued (see 48_known.lua). Times count from `base`. A task whose key belongs to
-- this shard and whose host to another is stored as seen here and sent there. Returns how many were new, and how many known.
local function put(run, columns, first, accepted, base)
    local hosts, names, keys, host_of, step_group_of, priorities, ttls, delays, of, homes, scraper_keys = unpack(columns)
    local added, left_out, here, away = 0, 0, tonumber(KEYS[1]:match(':(%d+)}$')), {}
    local step_groups, met, mine = step_group_numbers(run, names), {}, {}
    scraper_keys = known.open(run, scraper_keys)
    for i, key in ipairs(keys) do
        local element, is_accepted = ARGV[first + i - 1], not accepted or accepted[of[i]]
        if is_accepted and known.has(scraper_keys[i]) then
            left_out = left_out + (is_seen(run, element, key) and 0 or 1)
        elseif is_accepted and is_new(run, element, key) then  -- not a duplicate
            known.add(scraper_keys[i])
            local host, ttl, delay = hosts[host_of[i]], ttls[i] or 0, delays[i] or 0
            if (homes[i] or here) == here then
                if not met[host] then
                    met[host] = true
                    mine[#mine + 1] = host
                end
                enter(host, step_groups[step_group_of[i]], priorities[i], element,
                      ttl > 0 and base + ttl or 0, delay > 0 and base + delay or 0)
            else
                away[homes[i]] = away[homes[i]] or {}
                table.insert(away[homes[i]], parcel(host, names[step_group_of[i]], key, priorities[i], ttl, delay, element))
            end
            added = added + 1
        end
    end
    register_hosts(mine)
    for shard, parcels in pairs(away) do
        send(run, shard, base, '\221' .. struct.pack('>I4', #parcels) .. table.concat(parcels))
    end
    write_seen(run)
    known.write()
    return added, left_out
end
