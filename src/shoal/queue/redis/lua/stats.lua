-- The counts of a run: its lost tasks (on RabbitMQ), then the name of each section and its nine counts. ARGV  4 run

local run = run_named(ARGV[4])
if not run then
    return unknown(ARGV[4])
end
local tally, rows = call('HGETALL', run.R .. 'tally'), {call('SCARD', run.R .. 'lost_fingerprints')}
local sections = {}
for i = 1, #tally, 2 do
    sections[#sections + 1] = tally[i]
end
for i, name in ipairs(read_fields(run.R .. 'names', sections)) do
    rows[#rows + 1] = name
    rows[#rows + 1] = tally[2 * i]
end
return rows
