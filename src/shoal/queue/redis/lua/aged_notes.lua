-- The oldest notes of a topic. ARGV  4 topic, 5 how many
-- Answers the bytes of all values, whether expired notes may be among them, and when each was written, its key, stamp and size.

local topic, most = ARGV[4], tonumber(ARGV[5])
local faded = notes.fade(topic, most)
local aged, keys, found = call('ZRANGE', P .. 'aged:' .. topic, 0, most - 1, 'WITHSCORES'), {}, {}
for i = 1, #aged, 2 do
    keys[#keys + 1] = aged[i]
end
for i, packed in ipairs(read_fields(P .. 'note:' .. topic, keys)) do
    local stamp, _, size = notes.look(packed)
    if stamp then
        found[#found + 1] = {digits(tonumber(aged[2 * i])), keys[i], stamp, size}
    end
end
return {tonumber(call('HGET', P .. 'topics', topic)) or 0, faded == most and 1 or 0, found}
