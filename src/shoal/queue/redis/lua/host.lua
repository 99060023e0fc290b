-- Pause or slow a host by hand, or plan a start on it. ARGV  4 host, 5 'pause', 'slow' or 'turn', 6 duration. Returns how long until the planned start.

allow_when_full()
register_hosts({ARGV[4]})
local limits, duration, wait = host_limits_of(ARGV[4]), tonumber(ARGV[6]), 0
if ARGV[5] == 'pause' then
    limits.paused_until = duration > 0 and max(limits.paused_until, now + duration) or 0
    note_longest_delay(0, duration)
elseif ARGV[5] == 'turn' then
    local planned = max(now, limits.last_at + max(duration, limits.last_gap, limits.delay, limits.slowdown))
    -- Such a start is never given back, so no earlier one counts again.
    limits.last_at, limits.last_gap, limits.earlier = planned, duration, {}
    wait = planned - now
    note_longest_delay(duration, 0)
else
    limits.delay, limits.slowdown = duration, 0
    note_longest_delay(duration, 0)
end
changed_limits[ARGV[4]] = true
wake(ARGV[4])
write_host_limits()
return wait
