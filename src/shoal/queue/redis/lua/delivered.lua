-- Other shards have taken these tasks. ARGV  4 run number, 5 the stream they are in, 6... their entries
-- What leaves the outbox is kept for some seconds: a server that fails over may lose what it has just taken, and is told again.
-- What leaves `delivered` has been told again, and is gone. An empty stream stays: a new one might give an id twice, and
-- somebody might remove an entry that he has never read.

local R, kept = P .. ARGV[4] .. ':', {}
for i = 6, #ARGV do
    kept[#kept + 1] = ARGV[5] == 'outbox' and call('XRANGE', R .. 'outbox', ARGV[i], ARGV[i])[1] or nil
end
for from = 6, #ARGV, CHUNK do
    call('XDEL', R .. ARGV[5], unpack(ARGV, from, min(from + CHUNK - 1, #ARGV)))
end
for _, entry in ipairs(kept) do
    call('XADD', R .. 'delivered', '*', unpack(entry[2]))
end
if call('XLEN', R .. 'outbox') == 0 and call('XLEN', R .. 'delivered') == 0 then
    call('SREM', P .. 'sending', ARGV[4])
end
return #kept
