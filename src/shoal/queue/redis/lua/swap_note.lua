-- Write or remove a note that has a stamp. ARGV  4 topic, 5 key, 6 the stamp it must have ('' if there must be none), 7 the new one,
-- 8 life (0 for ever), 9 the value; without it the note is removed. Answers whether the note was as it must be.

if remembered() then
    return 1
end
local topic, key = ARGV[4], ARGV[5]
if (notes.stamp(topic, key) or '') ~= ARGV[6] then
    return 0
end
-- What one note of a fleet says anew takes no more room; a turn or a plan that cannot be renewed would stop the claims.
if ARGV[6] ~= '' then
    go_on_when_full()
end
if ARGV[9] then
    notes.write(topic, key, ARGV[9], ARGV[7], tonumber(ARGV[8]))
else
    notes.remove(topic, {key})
end
remember(1)
notes.fade(topic, 100)
forget_acked()
return 1
