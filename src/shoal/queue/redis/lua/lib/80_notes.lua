-- Notes: small state that the whole fleet shares, in the shard of topic and key together. In one table, because a script may have
-- at most 200 local names. Stamps are text here: they have more digits than a Lua number.

local notes = {}

-- The stamp of a note that has not expired, its age and its size; nil if there is none.
function notes.read(packed)
    if packed then
        local stamp, written, expires, size = unpack_all(packed)
        if expires == 0 or expires > now then
            return stamp, max(0, now - written), size
        end
    end
    return nil
end

function notes.stamp(topic, key)
    return (notes.read(call('HGET', P .. 'note:' .. topic, key)))
end

-- A ttl of 0 is unlimited.
function notes.write(topic, key, value, stamp, ttl)
    local old, size = call('HGET', P .. 'note:' .. topic, key), 0
    if old then
        size = select(4, unpack_all(old))
    end
    local expires = ttl > 0 and now + ttl or 0
    call('HSET', P .. 'value:' .. topic, key, value)
    call('HSET', P .. 'note:' .. topic, key, pack(stamp, now, expires, #value))
    call('ZADD', P .. 'aged:' .. topic, now, key)
    if expires > 0 then
        call('ZADD', P .. 'note_expiry:' .. topic, expires, key)
        call('ZADD', P .. 'topic_expiry', 'LT', expires, topic)
    elseif old then
        call('ZREM', P .. 'note_expiry:' .. topic, key)
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
            bytes = bytes + select(4, unpack_all(packed))
        end
    end
    call_chunked('HDEL', P .. 'note:' .. topic, keys)
    call_chunked('HDEL', P .. 'value:' .. topic, keys)
    call_chunked('ZREM', P .. 'aged:' .. topic, keys)
    call_chunked('ZREM', P .. 'note_expiry:' .. topic, keys)
    if call('EXISTS', P .. 'note:' .. topic) == 0 then
        call('HDEL', P .. 'topics', topic)
    elseif bytes > 0 then
        call('HINCRBY', P .. 'topics', topic, -bytes)
    end
end

-- Remove some expired notes of a topic, which reads already skip. Returns how many.
function notes.expire(topic, limit)
    local keys = call('ZRANGEBYSCORE', P .. 'note_expiry:' .. topic, '-inf', now, 'LIMIT', 0, limit)
    if #keys == 0 then
        return 0
    end
    notes.remove(topic, keys)
    local first = call('ZRANGE', P .. 'note_expiry:' .. topic, 0, 0, 'WITHSCORES')
    if first[2] then
        call('ZADD', P .. 'topic_expiry', first[2], topic)
    else
        call('ZREM', P .. 'topic_expiry', topic)
    end
    return #keys
end

-- The same for the topic whose notes expired first.
function notes.expire_some()
    local topic = call('ZRANGEBYSCORE', P .. 'topic_expiry', '-inf', now, 'LIMIT', 0, 1)[1]
    if topic and notes.expire(topic, 500) == 0 then
        call('ZREM', P .. 'topic_expiry', topic)
    end
end
