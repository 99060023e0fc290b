-- Extend the leases of a worker whose deadline has not passed: those on one page of a run's leases, so that a call stays short.
-- Leases are few and a worker is seldom silent, so all are scanned, but only in runs from which this worker has ever claimed.
--
-- ARGV  4 worker, 5 number of the run, 6 cursor of the page, '0' at first, 7 lease
-- Returns the tokens of the extended leases, and the cursor of the next page, '0' after the last one.

local PAGE = 500

local run = run_numbered(ARGV[5])
if not run or call('HEXISTS', run.R .. 'workers', ARGV[4]) == 0 then
    return {{}, '0'}
end
local after, page = unpack(call('HSCAN', run.R .. 'leases', ARGV[6], 'COUNT', PAGE))
local ids, values = {}, {}
for i = 1, #page, 2 do
    ids[#ids + 1] = page[i]
    values[#values + 1] = page[i + 1]
end
allow_when_full()
local _, extended = extend_leases(run, ids, values, now + ARGV[7], function(_, _, ends, worker)
    return worker == ARGV[4] and ends > now
end)
return {extended, after}
