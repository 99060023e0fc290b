-- Extend the deadlines of live leases. ARGV  4 run, 5 ids, 6 tokens, 7 lease. Returns the positions whose lease is live.

local run = run_named(ARGV[4])
if not run then
    return {}
end
allow_when_full()
local ids, tokens, deadline = {}, unpack_all(ARGV[6]), now + ARGV[7]
for at = 1, #ARGV[5], 16 do
    ids[#ids + 1] = ARGV[5]:sub(at, at + 15)
end
local accepted, fields, moved = {}, {}, {}
for i, value in ipairs(read_fields(run.R .. 'leases', ids)) do
    local at, token, section, priority, start, _, expires, host, worker
    if value then
        at, token, section, priority, start, _, expires, host, worker = unpack_limit(value, 8, 1)
    end
    if value and token == tokens[i] then
        accepted[#accepted + 1] = i
        fields[#fields + 1] = ids[i]
        fields[#fields + 1] = '\157' .. pack(token, section, priority, start, deadline, expires, host, worker) .. value:sub(at + 1)
        moved[#moved + 1] = deadline
        moved[#moved + 1] = ids[i]
    end
end
call_chunked('HSET', run.R .. 'leases', fields)
call_chunked('ZADD', run.R .. 'deadlines', moved)
if #moved > 0 then
    call('ZADD', P .. 'moments', 'LT', deadline, run.number)
    call('ZADD', P .. 'overdue', 'LT', deadline, run.number)
end
return accepted
