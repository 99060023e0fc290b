-- Hand back leases of a worker that is dead, as if it had released them, and bury those of some steps: those on one page of a run's leases, so
-- that a call stays short.
-- Leases are few and workers die seldom, so they are looked through, but only in runs that this worker has ever claimed from.
--
-- ARGV  4 worker, 5 number of the run, 6 where the page begins, '0' at first, 7 the error of those that are buried, 8... their steps
-- Answers how many ended, and where the next page begins, '0' when this was the last.

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
local ids, tokens, sections, met = {}, {}, {}, {}
for i = 1, #page, 2 do
    local _, token, section, _, _, _, _, _, holder = unpack_limit(page[i + 1], 8, 1)
    if holder == worker and not met[page[i]] then
        met[page[i]] = true
        ids[#ids + 1] = page[i]
        tokens[#tokens + 1] = token
        sections[#sections + 1] = section
    end
end
go_on_when_full()
local _, list, _, freed = finish(run, ids, tokens, function(i)
    if buried[sections[i]] then
        return BURY, ARGV[7], 0
    end
    return RELEASE, '', 0
end)
local answer = {#list, after}
if #list > 0 then
    free_hosts(freed, {})
    write_entered(run)
    write_dead(run)
    write_counts(run)
    write_gates()
end
if #list > 0 or TRY > 1 then
    remember(pack(answer))
end
forget_acked()
return answer
