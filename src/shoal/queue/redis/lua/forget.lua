-- Take a run out of the list: from here on nobody knows it, and purge.lua clears what it leaves. ARGV  4 id, 5 number ('' for its own)

local number = call('HGET', P .. 'runs', ARGV[4])
if ARGV[5] == '' and not number then
    return unknown(ARGV[4])
end
local gone = ARGV[5] == '' and number or ARGV[5]
if number == gone then
    call('HDEL', P .. 'runs', ARGV[4])
end
call('UNLINK', P .. 'run:' .. gone)
call('SADD', P .. 'gone', gone)
call('HSET', P .. 'purging', gone, ARGV[4])
call('HDEL', P .. 'spreading', gone)
call('ZREM', P .. 'moments', gone)
return tonumber(gone)
