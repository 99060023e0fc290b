-- Renew live leases: extend their deadlines. ARGV  4 run, 5 ids, 6 tokens, 7 lease. Returns the positions whose lease is live.

local run = run_named(ARGV[4])
if not run then
    return {}
end
allow_when_full()
local ids, tokens = {}, unpack_all(ARGV[6])
for at = 1, #ARGV[5], 16 do
    ids[#ids + 1] = ARGV[5]:sub(at, at + 15)
end
return (extend_leases(run, ids, read_fields(run.R .. 'leases', ids), now + ARGV[7], function(i, token)
    return token == tokens[i]
end))
