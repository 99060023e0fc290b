-- Write and remove notes of a topic. ARGV  4 topic, 5 stamp, 6 ttl (0 for unlimited), 7 how many to write, then key and value of each, then
-- the keys to remove

if read_receipt() then
    return 1
end
local topic, last, removed = ARGV[4], 7 + 2 * ARGV[7], {}
for i = 8, last, 2 do
    notes.write(topic, ARGV[i], ARGV[i + 1], ARGV[5], tonumber(ARGV[6]))
end
for i = last + 1, #ARGV do
    removed[#removed + 1] = ARGV[i]
end
notes.remove(topic, removed)
write_receipt(1)
notes.expire(topic, 100)
delete_acked_receipt()
return 1
