-- Change settings of a run. ARGV  4 id, 5... fields and values
-- Returns the run.

local run = run_named(ARGV[4])
if not run then
    return unknown(ARGV[4])
end
local key = P .. 'run:' .. run.number
allow_when_full()
call('HSET', key, unpack(ARGV, 5))
call('HINCRBY', key, 'version', 1)
if call('HGET', P .. 'meta', 'shards') ~= '1' then
    call('HSET', P .. 'spreading', run.number, run.id)
end
note_longest_delay(tonumber(call('HGET', key, 'host_delay')), 0)
return call('HGETALL', key)
