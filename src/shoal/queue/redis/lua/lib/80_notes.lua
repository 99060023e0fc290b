-- Notes: small state that the whole fleet shares, in the shard that topic and key together are given to. In one table, for a script
-- has room for 200 names. Stamps are text here: they have more digits than a Lua number.

local notes = {}

-- The stamp of a note that has not expired, its age and its size; nil if there is none.
function notes.look(packed)
    if packed then
        local stamp, written, expires, size = unpacked(packed)
        if expires == 0 or expires > now then
            return stamp, max(0, now - written), size
        end
    end
    return nil
end

function notes.stamp(topic, key)
    return (notes.look(call('HGET', P .. 'note:' .. topic, key)))
end

-- A life of 0 is for ever.
function notes.write(topic, key, value, stamp, life)
    local old, size = call('HGET', P .. 'note:' .. topic, key), 0
    if old then
        size = select(4, unpacked(old))
    end
    local expires = life > 0 and now + life or 0
    call('HSET', P .. 'value:' .. topic, key, value)
    call('HSET', P .. 'note:' .. topic, key, pack(stamp, now, expires, #value))
    call('ZADD', P .. 'aged:' .. topic, now, key)
    if expires > 0 then
        call('ZADD', P .. 'fading:' .. topic, expires, key)
        call('ZADD', P .. 'fading', 'LT', expires, topic)
    elseif old then
        call('ZREM', P .. 'fading:' .. topic, key)
    end
    call('HINCRBY', P .. 'topics', topic, #value - size)
end

function notes.remove(topic, keys)
    local bytes = 0
    if #keys == 0 then
        return
    end
    for _, packed in ipairs(read_fields(P .. 'note:' .. topic, keys)) do
        if packed then
            bytes = bytes + select(4, unpacked(packed))
        end
    end
    tell('HDEL', P .. 'note:' .. topic, keys)
    tell('HDEL', P .. 'value:' .. topic, keys)
    tell('ZREM', P .. 'aged:' .. topic, keys)
    tell('ZREM', P .. 'fading:' .. topic, keys)
    if call('EXISTS', P .. 'note:' .. topic) == 0 then
        call('HDEL', P .. 'topics', topic)
    elseif bytes > 0 then
        call('HINCRBY', P .. 'topics', topic, -bytes)
    end
end

-- Remove some notes of a topic that have expired; nobody has seen them since. Returns how many.
function notes.fade(topic, most)
    local keys = call('ZRANGEBYSCORE', P .. 'fading:' .. topic, '-inf', now, 'LIMIT', 0, most)
    if #keys == 0 then
        return 0
    end
    notes.remove(topic, keys)
    local first = call('ZRANGE', P .. 'fading:' .. topic, 0, 0, 'WITHSCORES')
    if first[2] then
        call('ZADD', P .. 'fading', first[2], topic)
    else
        call('ZREM', P .. 'fading', topic)
    end
    return #keys
end

-- The same for the topic whose notes have been expired for longest.
function notes.fade_some()
    local topic = call('ZRANGEBYSCORE', P .. 'fading', '-inf', now, 'LIMIT', 0, 1)[1]
    if topic and notes.fade(topic, 500) == 0 then
        call('ZREM', P .. 'fading', topic)
    end
end
