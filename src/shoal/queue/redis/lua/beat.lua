-- A heartbeat. ARGV  4 run, 5 worker, 6 state, 7 info

local run = run_named(ARGV[4])
if not run then
    return unknown(ARGV[4])
end
allow_when_full()
call('HSET', run.R .. 'beats', ARGV[5], pack({now, ARGV[6], ARGV[7]}))
return 1
