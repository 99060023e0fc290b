-- Remove a run from the list: from now on it is unknown, and purge.lua deletes the rest. ARGV  4 id, 5 number

local number = ARGV[5]
if call('HGET', P .. 'runs', ARGV[4]) == number then
    call('HDEL', P .. 'runs', ARGV[4])
end
call('UNLINK', P .. 'run:' .. number)
call('SADD', P .. 'gone', number)
call('HSET', P .. 'purging', number, ARGV[4])
call('HDEL', P .. 'spreading', number)
call('ZREM', P .. 'next_due', number)
call('ZREM', P .. 'next_lost', number)
return 1
