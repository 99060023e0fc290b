-- The schema of this shard. ARGV  4 version, 5 shards: written into a shard that is new, or older than this version; '' only reads.
-- Returns version and shards as they were, 0 for a new shard, and the number of its runs.

local found = call('HMGET', P .. 'meta', 'version', 'shards')
local version = tonumber(found[1]) or 0
local wanted = tonumber(ARGV[4]) or 0

-- Version 1 had one outbox for all runs.
local function split_outbox()
    for _, entry in ipairs(call('XRANGE', P .. 'outbox', '-', '+')) do
        local fields = {}
        for i = 1, #entry[2], 2 do
            fields[entry[2][i]] = entry[2][i + 1]
        end
        local run = run_numbered(fields.number)
        if run then
            send(run, fields.shard, tonumber(fields.at), fields.tasks)
        end
    end
    call('UNLINK', P .. 'outbox')
end

if wanted > version then
    split_outbox()
    call('HSET', P .. 'meta', 'version', ARGV[4])
    call('HSETNX', P .. 'meta', 'shards', ARGV[5])
    -- Before the first claim: a replica that misses it must know that it is another server.
    call('HSETNX', P .. 'meta', 'server', server_id())
end
return {version, tonumber(found[2]) or 0, call('HLEN', P .. 'runs')}
