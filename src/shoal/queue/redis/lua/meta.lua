-- The schema of this shard. ARGV  4 version, 5 shards: written into a new shard; '' only reads.
-- Returns version and shards as they were, 0 for a new shard, and the number of its runs.

local found = call('HMGET', P .. 'meta', 'version', 'shards')
local version = tonumber(found[1]) or 0

if ARGV[4] ~= '' and version == 0 then
    call('HSET', P .. 'meta', 'version', ARGV[4])
    call('HSETNX', P .. 'meta', 'shards', ARGV[5])
    -- Before the first claim: a replica that misses it must know that it is another server.
    call('HSETNX', P .. 'meta', 'server', server_id())
end
return {version, tonumber(found[2]) or 0, call('HLEN', P .. 'runs')}
