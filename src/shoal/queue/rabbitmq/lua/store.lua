-- The name of this store, which keeps its broker queues apart from those of other stores. ARGV  4 a name if it has none

-- Nothing is written if it has one: a full Redis would refuse that, and with it every worker that starts.
local name = call('HGET', P .. 'meta', 'store')
if not name then
    name = ARGV[4]
    call('HSET', P .. 'meta', 'store', name)
end
return name
