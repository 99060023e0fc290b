-- Bundles that no client has confirmed for a while: the client that made them may have died. ARGV  4 maximum count
-- They are returned with the reply; those of purged runs are dropped.

for _, name in ipairs(call('ZRANGEBYSCORE', P .. 'unsent', '-inf', now - RESEND_AFTER, 'LIMIT', 0, ARGV[4])) do
    local value = call('HGET', P .. 'outgoing', name)
    local at, route, number, id
    if value then
        at, route, number, id = unpack_limit(value, 3, 0)
    end
    if value and run_numbered(number) then
        call('ZADD', P .. 'unsent', now, name)
        outgoing[#outgoing + 1] = {name, route, number, id, value:sub(at + 1)}
    else
        call('ZREM', P .. 'unsent', name)
        call('HDEL', P .. 'outgoing', name)
    end
end
return #outgoing
