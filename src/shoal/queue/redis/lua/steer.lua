-- Change the state of a run, where its present state allows it. ARGV  4 id, 5 state, 6 reason, 7... states that allow it
-- Returns the run.

local run = run_named(ARGV[4])
if not run then
    return unknown(ARGV[4])
end
local key = P .. 'run:' .. run.number
for i = 7, #ARGV do
    if run.state == ARGV[i] then
        allow_when_full()
        call('HSET', key, 'state', ARGV[5], 'reason', ARGV[6])
        call('HINCRBY', key, 'version', 1)
        if call('HGET', P .. 'meta', 'shards') ~= '1' then
            call('HSET', P .. 'spreading', run.number, run.id)
        end
        break
    end
end
return call('HGETALL', key)
