-- Change the state of a run, unless it was cancelled. ARGV  4 id, 5 state. Returns the run.

local run = run_named(ARGV[4])
if not run then
    return unknown(ARGV[4])
end
local key = P .. 'run:' .. run.number
if run.state ~= ARGV[5] and run.state ~= 'cancelled' then
    go_on_when_full()
    call('HSET', key, 'state', ARGV[5])
    call('HINCRBY', key, 'version', 1)
    if call('HGET', P .. 'meta', 'shards') ~= '1' then
        call('HSET', P .. 'spreading', run.number, run.id)
    end
end
return call('HGETALL', key)
