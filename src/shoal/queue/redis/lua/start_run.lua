-- Create a run unless there is one with this id. ARGV  4 id, 5... fields and values
-- Returns whether this call created it, and the run.

local is_new = read_receipt() and 1 or 0
local number = call('HGET', P .. 'runs', ARGV[4])
if not number then
    is_new = 1
    number = call('HINCRBY', P .. 'meta', 'runs', 1)
    call('HSET', P .. 'run:' .. number, 'number', number, 'id', ARGV[4], 'started', digits(now), 'state', 'running',
         'version', 1, 'remaining', 0, 'entered', 0, 'sent', 0, unpack(ARGV, 5))
    call('HSET', P .. 'runs', ARGV[4], number)
    if call('HGET', P .. 'meta', 'shards') ~= '1' then
        call('HSET', P .. 'spreading', number, ARGV[4])
    end
    note_longest_delay(run_numbered(number).host_delay, 0)
    write_receipt(1)
end
delete_acked_receipt()
return {is_new, call('HGETALL', P .. 'run:' .. number)}
