-- Do what is due in one run: reclaim lost (expired) leases, end delays, expire tasks; some of each, so that a call stays short.
-- The run is the one that was due first, so that a hundred idle runs cost nothing.
-- Returns how many leases were ended, whether there is more to do, and how many purges and changes were interrupted.

local receipt = read_receipt()
if receipt then
    return unpack_all(receipt)
end
allow_when_full()
local number = call('ZRANGEBYSCORE', P .. 'next_due', '-inf', now, 'LIMIT', 0, 1)[1]
if not number then
    notes.expire_some()
    delete_acked_receipt()
    return {0, 0, call('HLEN', P .. 'purging') + call('HLEN', P .. 'spreading')}
end
local run = run_numbered(number)
if not run then
    call('ZREM', P .. 'next_due', number)
    return {0, 1, 0}
end

local count_lost = end_lost_leases(run)
apply_due_changes(run)
write_counts(run)
write_host_limits()
schedule_run(run)
if count_lost > 0 then
    write_receipt(pack({count_lost, 1, 0}))
end
delete_acked_receipt()
return {count_lost, 1, 0}
