-- Remove those of some notes that have not been written since. ARGV  4 topic, then key and stamp of each. Answers how many.

local told = remembered()
if told then
    return tonumber(told)
end
local topic, gone = ARGV[4], {}
for i = 5, #ARGV, 2 do
    if notes.stamp(topic, ARGV[i]) == ARGV[i + 1] then
        gone[#gone + 1] = ARGV[i]
    end
end
notes.remove(topic, gone)
if #gone > 0 then
    remember(#gone)
end
forget_acked()
return #gone
