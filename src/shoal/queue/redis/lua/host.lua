-- Pause or slow a host by hand. ARGV  4 host, 5 'pause' or 'slow', 6 duration

allow_when_full()
register_hosts({ARGV[4]})
local gate, duration = gate_of(ARGV[4]), tonumber(ARGV[6])
if ARGV[5] == 'pause' then
    gate.paused_until = duration > 0 and max(gate.paused_until, now + duration) or 0
    note_longest_delay(0, duration)
else
    gate.delay, gate.slowdown = duration, 0
    note_longest_delay(duration, 0)
end
changed_gates[ARGV[4]] = true
wake(ARGV[4])
write_gates()
return 1
