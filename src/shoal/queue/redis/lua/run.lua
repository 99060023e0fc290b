-- A run as it is stored. ARGV  4 id

local number = call('HGET', P .. 'runs', ARGV[4])
if not number then
    return unknown(ARGV[4])
end
return call('HGETALL', P .. 'run:' .. number)
