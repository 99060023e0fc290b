-- Hand back leases of a worker that is dead, as if it had released them: those on one page of a run's leases, so that a call stays short.
-- Leases are few and workers die seldom, so they are looked through, but only in runs that this worker has ever claimed from.
--
-- ARGV  4 worker, 5 number of the run, 6 where the page begins, '0' at first
-- Answers how many went back, and where the next page begins, '0' when this was the last.

local PAGE = 500

local told = remembered()
if told then
    return unpacked(told)
end
local worker, run = ARGV[4], run_numbered(ARGV[5])
if not run or call('HEXISTS', run.R .. 'workers', worker) == 0 then
    return {0, '0'}
end

-- A lease that stays from the first page to the last is on one of them at least, whatever comes and goes meanwhile.
local after, page = unpack(call('HSCAN', run.R .. 'leases', ARGV[6], 'COUNT', PAGE))
local ids, tokens, met = {}, {}, {}
for i = 1, #page, 2 do
    local _, token, _, _, _, _, _, _, holder = unpack_limit(page[i + 1], 8, 1)
    if holder == worker and not met[page[i]] then
        met[page[i]] = true
        ids[#ids + 1] = page[i]
        tokens[#tokens + 1] = token
    end
end
local _, list, _, freed = finish(run, ids, tokens, function()
    return RELEASE, '', 0
end)
local answer = {#list, after}
if #list > 0 then
    free_hosts(freed, {})
    write_entered(run)
    write_counts(run)
    write_gates()
end
if #list > 0 or TRY > 1 then
    remember(pack(answer))
end
forget_acked()
return answer
