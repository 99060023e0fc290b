-- The oldest notes of a topic. ARGV  4 topic, 5 maximum count
-- Returns the bytes of all values, whether expired notes may be among them, and write time, key, stamp and size of each note.

local topic, limit = ARGV[4], tonumber(ARGV[5])
local expired = notes.expire(topic, limit)
local aged, keys, found = call('ZRANGE', P .. 'aged:' .. topic, 0, limit - 1, 'WITHSCORES'), {}, {}
for i = 1, #aged, 2 do
    keys[#keys + 1] = aged[i]
end
for i, packed in ipairs(read_fields(P .. 'note:' .. topic, keys)) do
    local stamp, _, size = notes.read(packed)
    if stamp then
        found[#found + 1] = {digits(tonumber(aged[2 * i])), keys[i], stamp, size}
    end
end
return {tonumber(call('HGET', P .. 'topics', topic)) or 0, expired == limit and 1 or 0, found}
