-- Copy a run from shard 0, unless this shard's copy is as new or the run was purged. ARGV  4 id, 5 number, 6 version, 7... fields
-- A shard that has lost its data creates no run again: its tasks would be gone, and the run would be reported as drained.

local key, number = P .. 'run:' .. ARGV[5], tonumber(ARGV[5])
if call('SISMEMBER', P .. 'gone', number) == 1 then
    return 0
end
if call('HEXISTS', P .. 'meta', 'version') == 0 then
    return redis.error_reply('LOSTSHARD ' .. KEYS[1])
end
local version = tonumber(call('HGET', key, 'version'))
if version and version >= tonumber(ARGV[6]) then
    return 0
end
if version then
    allow_when_full()
end
call('HSET', key, 'version', ARGV[6], unpack(ARGV, 7))
if not version then
    call('HSET', key, 'remaining', 0, 'entered', 0, 'sent', 0)
    call('HSET', P .. 'runs', ARGV[4], number)
end
local run = run_numbered(number)
note_longest_delay(run.host_delay, 0)
return 1
