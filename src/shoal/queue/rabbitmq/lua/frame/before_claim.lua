-- Before a claim: what must be received first. Due bundles hold everything back; a wanted priority holds back the lower ones.
-- ARGV  11 '1' when the caller could not get the due bundles and takes what there is; 12 a 1 or 0 for each priority from 0: 1 when
-- the broker has nothing of it

local claim_run = run_named(ARGV[4])
local uses_broker = claim_run and claim_run.state == 'running' and not read_receipt()
local asked, chosen, route = tonumber(ARGV[6]), nil, -1
local claim_lead = unpack_all(ARGV[10])[4] or 0  -- hosts are looked at as that much later
if uses_broker then
    -- A full server lets a script continue that begins by freeing something, and claims must continue.
    call('UNLINK', P .. 'receipt:')
    end_lost_leases_of_all()  -- the reclaim of expired leases (visibility_timeout)
    apply_due_changes(claim_run)
    write_counts(claim_run)
    chosen = chosen_step_groups(claim_run, ARGV[10])
    route = ARGV[11] == '1' and -1 or due_route(claim_run)
    if route >= 0 then
        ARGV[6] = '0'
    else
        now = now + claim_lead
        ARGV[9] = max(tonumber(ARGV[9]), (wanted_route(claim_run, chosen, ARGV[12])))
        now = now - claim_lead
    end
end
