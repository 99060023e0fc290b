-- Pause or slow a host by hand. ARGV  4 host, 5 'pause' or 'slow', 6 duration

allow_when_full()
register_hosts({ARGV[4]})
local limits, duration = host_limits_of(ARGV[4]), tonumber(ARGV[6])
if ARGV[5] == 'pause' then
    limits.paused_until = duration > 0 and max(limits.paused_until, now + duration) or 0
    note_longest_delay(0, duration)
else
    limits.delay, limits.slowdown = duration, 0
    note_longest_delay(duration, 0)
end
changed_limits[ARGV[4]] = true
wake(ARGV[4])
write_host_limits()
return 1
