-- Write or remove a note that has a stamp. ARGV  4 topic, 5 key, 6 the stamp it must have ('' if there must be none), 7 the new one,
-- 8 ttl (0 for unlimited), 9 the value; without it the note is removed. Returns whether the note had that stamp.

local LOCK_TTL, LOCK_SIZE = 60000000, 100

if read_receipt() then
    return 1
end
local topic, key = ARGV[4], ARGV[5]
local stamp = notes.stamp(topic, key) or ''
if stamp ~= ARGV[6] then
    -- A note whose value was evicted is read as none, so it can be written as one.
    if ARGV[6] ~= '' or call('HEXISTS', P .. 'value:' .. topic, key) == 1 then
        return 0
    end
end
-- A note that is overwritten takes no more memory; a turn or a plan that cannot be renewed would stop the claims.
-- So would a lock that cannot be taken: it is a short note that soon expires.
local ttl = tonumber(ARGV[8])
if ARGV[6] ~= '' or (ttl > 0 and ttl <= LOCK_TTL and #(ARGV[9] or '') <= LOCK_SIZE) then
    allow_when_full()
end
if ARGV[9] then
    notes.write(topic, key, ARGV[9], ARGV[7], ttl)
else
    notes.remove(topic, {key})
end
write_receipt(1)
notes.expire(topic, 100)
delete_acked_receipt()
return 1
