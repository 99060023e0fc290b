-- After a claim: the way of the bundles it lacked, -1 for none, and whether their time has come; when the river may have
-- something; whether bundles are overdue; the run's number.

local extra = {-1, 0, -1, 0, 0}
if looks_afloat then
    local got = answer[2] == '\144' and 0 or struct.unpack('>I4', answer[2], 2)
    local hold = tonumber(call('HGET', P .. 'meta', 'hold')) or 0
    local due, must = huge, way >= 0 and 1 or 0
    if way < 0 and got < asked and hold <= now then
        changed_gates = {}
        way, due = thirst(river_run, meant, ARGV[12])
        write_gates()
    end
    due = max(0, min(due, first_tide(river_run)) - now)
    extra = {way, must, due < huge and due or -1, has_overdue() and 1 or 0, river_run.number}
end
