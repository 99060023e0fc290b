-- Bundles whose messages are about to be acknowledged. ARGV  4... run number and name of each, alternating
-- Returns the positions, from 0, of those that this server does not know as received: it has lost that. It forgets the others.

local lost = {}
for i = 4, #ARGV, 2 do
    if call('ZREM', P .. ARGV[i] .. ':received', ARGV[i + 1]) == 0 then
        lost[#lost + 1] = (i - 4) / 2
    end
end
return lost
