-- New tasks, each key of a run once.
--
-- Seen keys are 64-bit numbers in intsets of at most 512, which cost 8 bytes a key where a plain set costs 80. They are
-- spread over 64 groups by six bits that are not in the number, so that 70 bits tell keys apart, and over the buckets
-- of a group by linear hashing: one bucket for every 200 keys, and a new one takes its share from exactly one other.

local GROUPS, FILL = 64, 200
local seen_groups = {}

local function level(buckets)
    local size = 1
    while size * 2 <= buckets do
        size = size * 2
    end
    return size
end

local function bucket_of(group, key)
    local number, size = tonumber(key:sub(-9)), group.level
    local bucket = number % (size * 2)
    return bucket < group.buckets and bucket or number % size
end

local function split(prefix, group)
    local size, fresh = group.level, group.buckets
    local old, moved = prefix .. (fresh - size), {}
    for _, key in ipairs(call('SMEMBERS', old)) do
        if tonumber(key:sub(-9)) % (size * 2) == fresh then
            moved[#moved + 1] = key
        end
    end
    tell('SADD', prefix .. fresh, moved)
    tell('SREM', old, moved)
    group.buckets = fresh + 1
    group.level = level(group.buckets)
end

-- Note a key; false when it was noted before.
local function is_new(run, element, key)
    local number = element:byte(10) % GROUPS
    local group = seen_groups[number]
    if not group then
        local keys = tonumber(call('HGET', run.R .. 'seen', number)) or 0
        local buckets = max(1, floor(keys / FILL))
        group = {keys = keys, buckets = buckets, level = level(buckets)}
        seen_groups[number] = group
    end
    local prefix = run.R .. 'seen:' .. number .. ':'
    if call('SADD', prefix .. bucket_of(group, key), key) == 0 then
        return false
    end
    group.keys = group.keys + 1
    if floor(group.keys / FILL) > group.buckets then
        split(prefix, group)
    end
    return true
end

local function write_seen(run)
    local fields = {}
    for number, group in pairs(seen_groups) do
        fields[#fields + 1] = number
        fields[#fields + 1] = group.keys
    end
    tell('HSET', run.R .. 'seen', fields)
end

-- The numbers of sections, which are made when they are first seen. A lane's number has room for 65,536.
local function section_numbers(run, names)
    local found = read_fields(run.R .. 'sections', names)
    for i, name in ipairs(names) do
        if not found[i] then
            found[i] = call('HLEN', run.R .. 'sections')
            if found[i] >= 65536 then
                error('a run can have 65,536 pairs of step and partition; use fewer partitions')
            end
            call('HSET', run.R .. 'sections', name, found[i])
            call('HSET', run.R .. 'names', found[i], name)
        end
        found[i] = tonumber(found[i])
    end
    return found
end

-- Tasks for another shard, as wire.py reads them.
local function send(run, shard, base, tasks)
    call('XADD', run.R .. 'outbox', '*', 'shard', shard, 'at', digits(base), 'tasks', tasks)
    call('SADD', P .. 'sending', run.number)
    call('HINCRBY', P .. 'run:' .. run.number, 'sent', 1)
end

local function parcel(host, section, key, priority, ttl, delay, element)
    return '\151' .. pack(host, section, key, priority, ttl, delay) .. '\198' .. struct.pack('>I4', #element) .. element
end

-- Let tasks in: `columns` as wire.py packs them, their elements in ARGV from `first` on. Those of outcomes that were not
-- accepted stay out. Times count from `base`. A task whose key belongs to this shard and whose host to another is noted here
-- and sent there. Returns how many were new.
local function put(run, columns, first, accepted, base)
    local hosts, names, keys, host_of, section_of, priorities, ttls, delays, of, homes = unpack(columns)
    local added, here, away = 0, tonumber(KEYS[1]:match(':(%d+)}$')), {}
    local sections, met, mine = section_numbers(run, names), {}, {}
    for i, key in ipairs(keys) do
        local element = ARGV[first + i - 1]
        if (not accepted or accepted[of[i]]) and is_new(run, element, key) then
            local host, ttl, delay = hosts[host_of[i]], ttls[i] or 0, delays[i] or 0
            if (homes[i] or here) == here then
                if not met[host] then
                    met[host] = true
                    mine[#mine + 1] = host
                end
                enter(host, sections[section_of[i]], priorities[i], element,
                      ttl > 0 and base + ttl or 0, delay > 0 and base + delay or 0)
            else
                away[homes[i]] = away[homes[i]] or {}
                table.insert(away[homes[i]], parcel(host, names[section_of[i]], key, priorities[i], ttl, delay, element))
            end
            added = added + 1
        end
    end
    know_hosts(mine)
    for shard, parcels in pairs(away) do
        send(run, shard, base, '\221' .. struct.pack('>I4', #parcels) .. table.concat(parcels))
    end
    write_seen(run)
    return added
end
