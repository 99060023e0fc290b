-- The size of a topic in this shard. ARGV  4 topic, 5 how many expired notes to remove first
-- Returns how many notes there are, the bytes of their values, the age of the oldest or -1, and whether expired ones may be among them.

local topic, limit = ARGV[4], tonumber(ARGV[5])
local expired = notes.expire(topic, limit)
local oldest = call('ZRANGE', P .. 'aged:' .. topic, 0, 0, 'WITHSCORES')[2]
return {
    call('ZCARD', P .. 'aged:' .. topic), tonumber(call('HGET', P .. 'topics', topic)) or 0,
    oldest and max(0, now - tonumber(oldest)) or -1, expired == limit and 1 or 0,
}
