-- The route of the first bundle of a run that is due, -1 if there is none. ARGV  4 run number

local run = run_numbered(ARGV[4])
return run and due_route(run) or -1
