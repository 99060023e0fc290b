-- Copy a run from shard 0, unless this shard's copy is as new or the run was purged. ARGV  4 id, 5 number, 6 version, 7... fields

local key, number = P .. 'run:' .. ARGV[5], tonumber(ARGV[5])
if call('SISMEMBER', P .. 'gone', number) == 1 then
    return 0
end
local version = tonumber(call('HGET', key, 'version'))
if version and version >= tonumber(ARGV[6]) then
    return 0
end
call('HSET', key, 'version', ARGV[6], unpack(ARGV, 7))
if not version then
    call('HSET', key, 'remaining', 0, 'entered', 0)
    call('HSET', P .. 'runs', ARGV[4], number)
end
local run = run_numbered(number)
local longest = tonumber(call('HGET', P .. 'meta', 'longest')) or 0
call('HSET', P .. 'meta', 'longest', digits(max(longest, run.delay)))
return 1
