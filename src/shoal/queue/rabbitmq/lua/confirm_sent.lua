-- RabbitMQ has these bundles. ARGV  4... their names
-- Returns the runs that were purged in the meantime, each as id and number: nobody will fetch what was sent to their queues.

local gone = {}
for i = 4, #ARGV do
    local value = call('HGET', P .. 'outgoing', ARGV[i])
    if value then
        local _, _, number, id = unpack_limit(value, 3, 0)
        if not run_numbered(number) then
            gone[#gone + 1] = {id, number}
        end
    end
    call('HDEL', P .. 'outgoing', ARGV[i])
    call('ZREM', P .. 'unsent', ARGV[i])
end
return gone
