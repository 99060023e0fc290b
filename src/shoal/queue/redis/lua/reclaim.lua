-- Do in one run what time calls for: lost leases go back, delays end, tasks expire; some of each, so that a call stays short.
-- The run is the one whose moment has come first, so that a hundred runs at rest cost nothing.
-- Answers how many leases were taken back, whether there is more to do, and how many purges and changes were cut short.

local TAKE_BACK = 250

local told = remembered()
if told then
    return unpacked(told)
end
local number = call('ZRANGEBYSCORE', P .. 'moments', '-inf', now, 'LIMIT', 0, 1)[1]
if not number then
    forget_acked()
    return {0, 0, call('HLEN', P .. 'purging') + call('HLEN', P .. 'spreading')}
end
local run = run_numbered(number)
if not run then
    call('ZREM', P .. 'moments', number)
    return {0, 1, 0}
end

local lost, tokens = call('ZRANGEBYSCORE', run.R .. 'deadlines', '-inf', now, 'LIMIT', 0, TAKE_BACK), {}
for i, value in ipairs(read_fields(run.R .. 'leases', lost)) do
    local _, token = 0, 0
    if value then
        _, token = unpack_limit(value, 1, 1)
    end
    tokens[i] = token
end
local _, list, _, freed = finish(run, lost, tokens, function()
    return LOST, 'lease lost', 0
end)
free_hosts(freed, {})
write_entered(run)
write_dead(run)
let_time_pass(run)
write_counts(run)
write_gates()
note_moment(run)
if #list > 0 then
    remember(pack({#list, 1, 0}))
end
forget_acked()
return {#list, 1, 0}
