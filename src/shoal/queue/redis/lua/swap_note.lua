-- Write or remove a note that has a stamp. ARGV  4 topic, 5 key, 6 the stamp it must have ('' if there must be none), 7 the new one,
-- 8 ttl (0 for unlimited), 9 the value; without it the note is removed. Returns whether the note had that stamp.

if read_receipt() then
    return 1
end
local topic, key = ARGV[4], ARGV[5]
if (notes.stamp(topic, key) or '') ~= ARGV[6] then
    return 0
end
-- A note that is overwritten takes no more memory; a turn or a plan that cannot be renewed would stop the claims.
if ARGV[6] ~= '' then
    allow_when_full()
end
if ARGV[9] then
    notes.write(topic, key, ARGV[9], ARGV[7], tonumber(ARGV[8]))
else
    notes.remove(topic, {key})
end
write_receipt(1)
notes.expire(topic, 100)
delete_acked_receipt()
return 1
