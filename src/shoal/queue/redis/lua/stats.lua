-- The counts of a run: its lost tasks (on RabbitMQ), then the name of each step group and its nine counts. ARGV  4 run

local run = run_named(ARGV[4])
if not run then
    return unknown(ARGV[4])
end
local counters, rows = call('HGETALL', run.R .. 'counters'), {call('SCARD', run.R .. 'lost_fingerprints')}
local step_groups = {}
for i = 1, #counters, 2 do
    step_groups[#step_groups + 1] = counters[i]
end
for i, name in ipairs(read_fields(run.R .. 'names', step_groups)) do
    rows[#rows + 1] = name
    rows[#rows + 1] = counters[2 * i]
end
return rows
