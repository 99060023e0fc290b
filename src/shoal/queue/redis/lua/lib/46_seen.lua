-- Large sets of keys, by which a duplicate is found.
--
-- Keys are 64-bit numbers in intsets of at most 512, which cost 8 bytes a key where a plain set costs 80. They are
-- spread over 64 groups by six bits that are not in the number, so that 70 bits distinguish keys, and over the buckets
-- of a group by linear hashing: one bucket for every 200 keys, and a new one takes its share from exactly one other.

local GROUPS, FILL = 64, 200

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
    call_chunked('SADD', prefix .. fresh, moved)
    call_chunked('SREM', old, moved)
    group.buckets = fresh + 1
    group.level = level(group.buckets)
end

-- A group with this number of keys.
local function group_of(keys)
    local buckets = max(1, floor((tonumber(keys) or 0) / FILL))
    return {keys = tonumber(keys) or 0, buckets = buckets, level = level(buckets)}
end

-- Add a key to a group whose buckets have the prefix `prefix`; false if it was there.
local function add_key(prefix, group, key)
    if call('SADD', prefix .. bucket_of(group, key), key) == 0 then
        return false
    end
    group.keys = group.keys + 1
    if floor(group.keys / FILL) > group.buckets then
        split(prefix, group)
    end
    return true
end

-- Delete some buckets of a set whose counts are in the hash `key`; false if nothing of it is left.
local function unlink_buckets(key, limit)
    for group = 0, GROUPS - 1 do
        local keys = call('HGET', key, group)
        if keys then
            local last = group_of(keys).buckets - 1
            local first = max(0, last - limit + 1)
            for bucket = first, last do
                call('UNLINK', key .. ':' .. group .. ':' .. bucket)
            end
            if first == 0 then
                call('HDEL', key, group)
            else
                call('HSET', key, group, first * FILL)
            end
            return true
        end
    end
    return false
end
