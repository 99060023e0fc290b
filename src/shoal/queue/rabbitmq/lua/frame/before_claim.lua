-- Before a claim: what must come ashore first. Bundles whose time has come hold everything back; a thirsty priority holds back
-- the lower ones. ARGV  11 '1' when the caller could not get what has come due, and wants what there is; 12 a 1 or 0 for each
-- priority from 0, 1 when the broker has nothing of it

local river_run = run_named(ARGV[4])
local looks_afloat = river_run and river_run.state == 'running' and not remembered()
local asked, meant, way = tonumber(ARGV[6]), nil, -1
if looks_afloat then
    -- A full server lets a script go on that begins with freeing something, and claims must go on.
    call('UNLINK', P .. 'receipt:')
    take_back_lost()
    let_time_pass(river_run)
    write_counts(river_run)
    meant = sections_meant(river_run, ARGV[10])
    way = ARGV[11] == '1' and -1 or tide(river_run)
    if way >= 0 then
        ARGV[6] = '0'
    else
        ARGV[9] = max(tonumber(ARGV[9]), (thirst(river_run, meant, ARGV[12])))
    end
end
