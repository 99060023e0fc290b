-- New tasks go to the broker. A duplicate is dropped by `put` (the dupefilter) of the Redis queue (redis/lua/lib/50_put.lua), which is called here. A
-- task whose bundle was lost may enter again.

-- Forget the keys of lost tasks. The count of keys stays: it determines the number of buckets.
local function forget_lost(run, columns, first, accepted)
    local keys, of, scraper_keys = columns[3], columns[9], known.open(run, columns[11])
    for i, key in ipairs(keys) do
        local element = ARGV[first + i - 1]
        if (not accepted or accepted[of[i]])
            and call('SREM', run.R .. 'lost_fingerprints', struct.unpack('>I4', element, 11)) == 1 then
            local number = element:byte(10) % GROUPS
            local bucket = bucket_of(group_of(call('HGET', run.R .. 'seen', number)), key)
            call('SREM', run.R .. 'seen:' .. number .. ':' .. bucket, key)
            known.remove(scraper_keys[i])
        end
    end
end

local put_in_redis = put
local function put(run, columns, first, accepted, base)
    local empty = call('HGETALL', run.R .. 'empty')
    for i = 1, #empty, 2 do
        closed_routes[tonumber(empty[i])] = empty[i + 1]:sub(1, 1) == 'c'
    end
    if call('EXISTS', run.R .. 'lost_fingerprints') == 1 then
        forget_lost(run, columns, first, accepted)
    end
    to_broker = true
    local added, left_out = put_in_redis(run, columns, first, accepted, base)
    to_broker = false
    return added, left_out
end
