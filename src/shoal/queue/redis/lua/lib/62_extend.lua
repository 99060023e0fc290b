-- Extending leases.

-- Set a new deadline for those of a run's leases that `is_meant` accepts, by position, token, deadline and worker. `values` are the stored
-- leases with these ids. Returns their positions and tokens.
local function extend_leases(run, ids, values, deadline, is_meant)
    local accepted, extended, fields, moved = {}, {}, {}, {}
    for i, value in ipairs(values) do
        if value then
            local at, token, step_group, priority, start, ends, expires, host, worker = unpack_limit(value, 8, 1)
            if is_meant(i, token, ends, worker) then
                accepted[#accepted + 1] = i
                extended[#extended + 1] = token
                fields[#fields + 1] = ids[i]
                fields[#fields + 1] = '\157' .. pack(token, step_group, priority, start, deadline, expires, host, worker) .. value:sub(at + 1)
                moved[#moved + 1] = deadline
                moved[#moved + 1] = ids[i]
            end
        end
    end
    call_chunked('HSET', run.R .. 'leases', fields)
    call_chunked('ZADD', run.R .. 'deadlines', moved)
    if #moved > 0 then
        call('ZADD', P .. 'next_due', 'LT', deadline, run.number)
        call('ZADD', P .. 'next_lost', 'LT', deadline, run.number)
    end
    return accepted, extended
end
