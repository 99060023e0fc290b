-- Bundles whose messages are about to be acknowledged. ARGV  4... run number and name of each by turns
-- Answers the positions, from 0, of those that are not known to have landed: this server has lost it. The others are forgotten.

local lost = {}
for i = 4, #ARGV, 2 do
    if call('ZREM', P .. ARGV[i] .. ':landed', ARGV[i + 1]) == 0 then
        lost[#lost + 1] = (i - 4) / 2
    end
end
return lost
