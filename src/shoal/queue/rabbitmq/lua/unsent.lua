-- Bundles that nobody has confirmed for a while: whoever made them may have died. ARGV  4 how many
-- They go out with the answer; those of purged runs are dropped.

for _, name in ipairs(call('ZRANGEBYSCORE', P .. 'unsent', '-inf', now - REPEAT, 'LIMIT', 0, ARGV[4])) do
    local value = call('HGET', P .. 'sailing', name)
    local at, way, number, id
    if value then
        at, way, number, id = unpack_limit(value, 3, 0)
    end
    if value and run_numbered(number) then
        call('ZADD', P .. 'unsent', now, name)
        sailing[#sailing + 1] = {name, way, number, id, value:sub(at + 1)}
    else
        call('ZREM', P .. 'unsent', name)
        call('HDEL', P .. 'sailing', name)
    end
end
return #sailing
