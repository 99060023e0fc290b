-- The way of the first bundle of a run whose time has come, -1 if there is none. ARGV  4 run number

local run = run_numbered(ARGV[4])
return run and tide(run) or -1
