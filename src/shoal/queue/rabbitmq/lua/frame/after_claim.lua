-- After a claim: the route of the bundles it lacks, -1 for none, and whether they are due; when the broker may have something;
-- whether bundles are overdue; the run's number.

local extra = {-1, 0, -1, 0, 0}
if uses_broker then
    local got = 0
    for _, group in ipairs(reply[2]) do
        got = got + #group - 1
    end
    local hold = tonumber(call('HGET', P .. 'meta', 'hold')) or 0
    local due, must = huge, route >= 0 and 1 or 0
    if route < 0 and got < asked and hold <= now then
        changed_limits = {}
        now = now + claim_lead
        route, due = wanted_route(claim_run, chosen, ARGV[12])
        now, due = now - claim_lead, due - claim_lead
        write_host_limits()
    end
    due = max(0, min(due, first_bundle_time(claim_run)) - now)
    extra = {route, must, due < huge and due or -1, has_overdue() and 1 or 0, claim_run.number}
end
