-- What the store is, noted when it is first used. ARGV  4 version, 5 shards. Answers version and shards as they are.

if call('EXISTS', P .. 'meta') == 0 then
    call('HSET', P .. 'meta', 'version', ARGV[4], 'shards', ARGV[5])
end
local found = call('HMGET', P .. 'meta', 'version', 'shards')
return {tonumber(found[1]), tonumber(found[2])}
