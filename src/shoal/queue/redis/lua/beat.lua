-- Heartbeats. ARGV  4 run, then of each worker: its id, state, info

local run = run_named(ARGV[4])
if not run then
    return unknown(ARGV[4])
end
allow_when_full()
for at = 5, #ARGV, 3 do
    call('HSET', run.R .. 'beats', ARGV[at], pack({now, ARGV[at + 1], ARGV[at + 2]}))
end
return 1
