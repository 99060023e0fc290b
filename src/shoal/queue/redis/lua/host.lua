-- An operator's hand on a gate. ARGV  4 host, 5 'pause' or 'slow', 6 duration

go_on_when_full()
know_hosts({ARGV[4]})
local gate, duration = gate_of(ARGV[4]), tonumber(ARGV[6])
if ARGV[5] == 'pause' then
    gate.paused_until = duration > 0 and max(gate.paused_until, now + duration) or 0
    note_longest(0, duration)
else
    gate.delay, gate.slowdown = duration, 0
    note_longest(duration, 0)
end
changed_gates[ARGV[4]] = true
wake(ARGV[4])
write_gates()
return 1
