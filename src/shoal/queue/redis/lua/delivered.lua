-- Other shards have accepted these tasks. ARGV  4 run number, 5 the stream they are in, 6... their entries
-- Entries that leave the outbox are kept for some seconds: a server that fails over may lose what it has just accepted, and gets
-- them again. Entries that leave `delivered` were delivered twice, and are deleted. An empty stream stays: a new one might use an id
-- twice, and a client might remove an entry that it has never read.

local R, moved = P .. ARGV[4] .. ':', {}
for i = 6, #ARGV do
    moved[#moved + 1] = ARGV[5] == 'outbox' and call('XRANGE', R .. 'outbox', ARGV[i], ARGV[i])[1] or nil
end
for from = 6, #ARGV, CHUNK do
    call('XDEL', R .. ARGV[5], unpack(ARGV, from, min(from + CHUNK - 1, #ARGV)))
end
for _, entry in ipairs(moved) do
    call('XADD', R .. 'delivered', '*', unpack(entry[2]))
end
if call('XLEN', R .. 'outbox') == 0 and call('XLEN', R .. 'delivered') == 0 then
    call('SREM', P .. 'outboxes', ARGV[4])
end
return #moved
