-- Do in one run what time calls for: lost leases go back, delays end, tasks expire; some of each, so that a call stays short.
-- The run is the one whose moment has come first, so that a hundred runs at rest cost nothing.
-- Answers how many leases were taken back, whether there is more to do, and how many purges and changes were cut short.

local told = remembered()
if told then
    return unpacked(told)
end
go_on_when_full()
local number = call('ZRANGEBYSCORE', P .. 'moments', '-inf', now, 'LIMIT', 0, 1)[1]
if not number then
    notes.fade_some()
    forget_acked()
    return {0, 0, call('HLEN', P .. 'purging') + call('HLEN', P .. 'spreading')}
end
local run = run_numbered(number)
if not run then
    call('ZREM', P .. 'moments', number)
    return {0, 1, 0}
end

local count_lost = take_back(run)
let_time_pass(run)
write_counts(run)
write_gates()
note_moment(run)
if count_lost > 0 then
    remember(pack({count_lost, 1, 0}))
end
forget_acked()
return {count_lost, 1, 0}
