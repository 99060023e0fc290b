-- New tasks go afloat. A task whose bundle was lost may enter again.

-- Forget the keys of lost tasks. The count of keys stays: it says how many buckets there are.
local function forget_lost(run, columns, first, accepted)
    local keys, of, scraper_keys = columns[3], columns[9], known.open(run, columns[11])
    for i, key in ipairs(keys) do
        local element = ARGV[first + i - 1]
        if (not accepted or accepted[of[i]])
            and call('SREM', run.R .. 'lost_prints', struct.unpack('>I4', element, 11)) == 1 then
            local number = element:byte(10) % GROUPS
            local bucket = bucket_of(group_of(call('HGET', run.R .. 'seen', number)), key)
            call('SREM', run.R .. 'seen:' .. number .. ':' .. bucket, key)
            known.remove(scraper_keys[i])
        end
    end
end

local put_here = put
local function put(run, columns, first, accepted, base)
    local empty = call('HGETALL', run.R .. 'empty')
    for i = 1, #empty, 2 do
        closed_ways[tonumber(empty[i])] = empty[i + 1]:sub(1, 1) == 'c'
    end
    if call('EXISTS', run.R .. 'lost_prints') == 1 then
        forget_lost(run, columns, first, accepted)
    end
    floating = true
    local added, left_out = put_here(run, columns, first, accepted, base)
    floating = false
    return added, left_out
end
