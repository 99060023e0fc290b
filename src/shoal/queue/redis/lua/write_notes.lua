-- Write and remove notes of a topic. ARGV  4 topic, 5 stamp, 6 life (0 for ever), 7 how many to write, then key and value of each, then
-- the keys to remove

if remembered() then
    return 1
end
local topic, last, gone = ARGV[4], 7 + 2 * ARGV[7], {}
for i = 8, last, 2 do
    notes.write(topic, ARGV[i], ARGV[i + 1], ARGV[5], tonumber(ARGV[6]))
end
for i = last + 1, #ARGV do
    gone[#gone + 1] = ARGV[i]
end
notes.remove(topic, gone)
remember(1)
notes.fade(topic, 100)
forget_acked()
return 1
