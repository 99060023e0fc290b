-- Read notes of a topic. ARGV  4 topic, 5 the cursor of a page of all of them ('' to read by keys), 6... keys
-- Returns the cursor of the next page ('0' after the last one), and key, stamp, age and value of each that has not expired.

local topic, keys, cursor = ARGV[4], {}, '0'
if ARGV[5] == '' then
    for i = 6, #ARGV do
        keys[#keys + 1] = ARGV[i]
    end
else
    local page = call('HSCAN', P .. 'note:' .. topic, ARGV[5], 'COUNT', 500)
    cursor = page[1]
    for i = 1, #page[2], 2 do
        keys[#keys + 1] = page[2][i]
    end
end
local live, heads, found = {}, {}, {}
for i, packed in ipairs(read_fields(P .. 'note:' .. topic, keys)) do
    local stamp, age = notes.read(packed)
    if stamp then
        live[#live + 1] = keys[i]
        heads[#live] = {stamp, digits(age)}
    end
end
for i, value in ipairs(read_fields(P .. 'value:' .. topic, live)) do
    -- A server that evicts keys may have the note without its values.
    if value then
        found[#found + 1] = {live[i], heads[i][1], heads[i][2], value}
    end
end
return {cursor, found}
