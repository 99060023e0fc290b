-- An operator's hand on a gate. ARGV  4 host, 5 'pause' or 'slow', 6 duration

know_hosts({ARGV[4]})
local gate, duration = gate_of(ARGV[4]), tonumber(ARGV[6])
if ARGV[5] == 'pause' then
    gate.paused_until = duration > 0 and max(gate.paused_until, now + duration) or 0
else
    gate.delay = duration
    local longest = tonumber(call('HGET', P .. 'meta', 'longest')) or 0
    call('HSET', P .. 'meta', 'longest', digits(max(longest, duration)))
end
changed_gates[ARGV[4]] = true
wake(ARGV[4])
write_gates()
return 1
