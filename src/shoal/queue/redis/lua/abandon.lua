-- End leases of a dead worker like a release, and bury those of some steps: those on one page of a run's leases, so that a call
-- stays short.
-- Leases are few and workers rarely die, so all are scanned, but only in runs from which this worker has ever claimed.
--
-- ARGV  4 worker, 5 number of the run, 6 cursor of the page, '0' at first, 7 the error for buried tasks, 8... their steps
-- Returns how many ended, and the cursor of the next page, '0' after the last one.

local PAGE = 500

local receipt = read_receipt()
if receipt then
    return unpack_all(receipt)
end
local worker, run = ARGV[4], run_numbered(ARGV[5])
if not run or call('HEXISTS', run.R .. 'workers', worker) == 0 then
    return {0, '0'}
end

-- HSCAN returns a lease that exists from the first page to the last at least once, whatever else changes.
local after, page = unpack(call('HSCAN', run.R .. 'leases', ARGV[6], 'COUNT', PAGE))
local once, buried = {}, {}
for i = 8, #ARGV do
    once[ARGV[i]] = true
end
if next(once) then
    local names = call('HGETALL', run.R .. 'names')
    for i = 1, #names, 2 do
        buried[tonumber(names[i])] = once[names[i + 1]:match('^(%Z*)%z')]
    end
end
local ids, tokens, step_groups, met = {}, {}, {}, {}
for i = 1, #page, 2 do
    local _, token, step_group, _, _, _, _, _, holder = unpack_limit(page[i + 1], 8, 1)
    if holder == worker and not met[page[i]] then
        met[page[i]] = true
        ids[#ids + 1] = page[i]
        tokens[#tokens + 1] = token
        step_groups[#step_groups + 1] = step_group
    end
end
allow_when_full()
local _, list, _, freed = finish(run, ids, tokens, function(i)
    if buried[step_groups[i]] then
        return BURY, ARGV[7], 0
    end
    return RELEASE, '', 0
end)
local reply = {#list, after}
if #list > 0 then
    free_hosts(freed, {})
    write_entered(run)
    write_dead(run)
    write_counts(run)
    write_host_limits()
end
if #list > 0 or TRY > 1 then
    write_receipt(pack(reply))
end
delete_acked_receipt()
return reply
