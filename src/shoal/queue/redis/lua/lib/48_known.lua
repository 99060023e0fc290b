-- What runs with `dedup` have queued, which other runs of their scraper skip for a while. In one table, because a script may have
-- at most 200 local names.
--
-- The lifetime is split into eighths. Keys of the same eighth form one set, which is forgotten as a whole when the lifetime has
-- passed since the end of its eighth. So a key is looked up in at most ten sets for each lifetime in use, is known for up to an
-- eighth longer than its run asks for, and costs as much as a seen key. All Redis keys of a set have a TTL, in case no run follows.

local known = {sets = {}, touched = {}, outdated = {}}
known.EIGHTHS = 8

function known.until_of(life, eighth)
    return (eighth + 1) * ceil(life / known.EIGHTHS) + life
end

function known.read(number)
    local set, counts = {number = number, groups = {}}, call('HGETALL', P .. 'known:' .. number)
    for i = 1, #counts, 2 do
        set.groups[tonumber(counts[i])] = group_of(counts[i + 1])
    end
    return set
end

-- The sets of a scraper that have not expired.
function known.read_index(index)
    local sets, names = {}, call('HGETALL', index)
    for i = 1, #names, 2 do
        local life, eighth = names[i]:match('^(%d+):(%d+)$')
        if known.until_of(tonumber(life), tonumber(eighth)) > now then
            local set = known.read(names[i + 1])
            set.name = names[i]
            sets[#sets + 1] = set
        else
            known.outdated[#known.outdated + 1] = names[i]
        end
    end
    return sets
end

-- Load the sets for the keys of tasks, and return the keys: none if the run has no dedup.
function known.open(run, keys)
    if not keys or #keys == 0 then
        return {}
    end
    local scraper, life = unpack(call('HMGET', P .. 'run:' .. run.number, 'scraper', 'dedup'))
    life = tonumber(life)
    if not life then
        return {}
    end
    known.index = P .. 'dedup:' .. scraper
    known.sets = known.read_index(known.index)
    known.life, known.eighth = life, floor(now / ceil(life / known.EIGHTHS))
    return keys
end

-- A key is sent as its group and its number: '63:-12345'.
function known.parts(key)
    local group, number = key:match('^(%d+):(.+)$')
    return tonumber(group), number
end

function known.bucket_with(set, group, number)
    return P .. 'known:' .. set.number .. ':' .. group .. ':' .. bucket_of(set.groups[group], number)
end

-- Whether another run has queued a task; a task without a key is never known.
function known.has(key)
    if not key or key == '' then
        return false
    end
    local group, number = known.parts(key)
    for _, set in ipairs(known.sets) do
        if set.groups[group] and call('SISMEMBER', known.bucket_with(set, group, number), number) == 1 then
            return true
        end
    end
    return false
end

-- The set for new keys.
function known.current()
    local name = digits(known.life) .. ':' .. digits(known.eighth)
    for _, set in ipairs(known.sets) do
        if set.name == name then
            return set
        end
    end
    local set = {number = call('HINCRBY', P .. 'meta', 'known', 1), groups = {}, name = name}
    call('HSET', known.index, name, set.number)
    known.sets[#known.sets + 1] = set
    return set
end

function known.add(key)
    if not key or key == '' then
        return
    end
    local set, group, number = known.current(), known.parts(key)
    local prefix = P .. 'known:' .. set.number .. ':' .. group .. ':'
    set.groups[group] = set.groups[group] or group_of(0)
    local buckets = set.groups[group].buckets
    add_key(prefix, set.groups[group], number)
    known.touched[prefix .. bucket_of(set.groups[group], number)] = true
    if set.groups[group].buckets > buckets then  -- two buckets were rewritten
        known.touched[prefix .. buckets] = true
        known.touched[prefix .. (buckets - level(buckets))] = true
    end
    set.changed = true
end

-- Remove a key: its task was lost before a worker processed it.
function known.remove(key)
    if not key or key == '' then
        return
    end
    local group, number = known.parts(key)
    for _, set in ipairs(known.sets) do
        if set.groups[group] then
            call('SREM', known.bucket_with(set, group, number), number)
        end
    end
end

function known.expire_with(key, left)
    if call('PTTL', key) < left then
        call('PEXPIRE', key, left)
    end
end

function known.write()
    for _, set in ipairs(known.sets) do
        if set.changed then
            local left = ceil((known.until_of(known.life, known.eighth) - now) / 1000)
            local fields = {}
            for number, group in pairs(set.groups) do
                fields[#fields + 1] = number
                fields[#fields + 1] = group.keys
            end
            call_chunked('HSET', P .. 'known:' .. set.number, fields)
            for key in pairs(known.touched) do
                call('PEXPIRE', key, left)
            end
            call('PEXPIRE', P .. 'known:' .. set.number, left)
            known.expire_with(known.index, left)
        end
    end
    if #known.outdated > 0 then
        call_chunked('HDEL', known.index, known.outdated)
    end
    known.sets, known.touched, known.outdated = {}, {}, {}
end
