-- Remove notes unless they were written since. ARGV  4 topic, then key and stamp of each. Returns how many.

local receipt = read_receipt()
if receipt then
    return tonumber(receipt)
end
local topic, gone = ARGV[4], {}
for i = 5, #ARGV, 2 do
    if notes.stamp(topic, ARGV[i]) == ARGV[i + 1] then
        gone[#gone + 1] = ARGV[i]
    end
end
notes.remove(topic, gone)
if #gone > 0 then
    write_receipt(#gone)
end
delete_acked_receipt()
return #gone
