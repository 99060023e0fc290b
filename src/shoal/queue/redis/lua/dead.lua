-- Replay dead letters (they become pending again, after a delay if there is one) or drop them.
-- ARGV  4 run, 5 'replay' or 'drop', 6 ids, 7 delay. Returns how many.
-- The time to live of a task counts from the end of its delay, as it would expire unseen otherwise.

local run = run_named(ARGV[4])
if not run then
    return unknown(ARGV[4])
end
local receipt = read_receipt()
if receipt then
    return tonumber(receipt)
end
local ids, gone, dropped, handled = {}, {}, {}, {}
local delay = tonumber(ARGV[7])
for at = 1, #ARGV[6], 16 do
    ids[#ids + 1] = ARGV[6]:sub(at, at + 15)
end
for i, value in ipairs(read_fields(run.R .. 'dead', ids)) do
    if value and not handled[ids[i]] then
        local at, step_group, priority, host = unpack_limit(value, 3, 1)
        handled[ids[i]] = true
        gone[#gone + 1] = ids[i]
        count(host, step_group, DEAD, -1)
        if ARGV[5] == 'drop' then
            count(host, step_group, DROPPED, 1)
            at = unpack_limit(value, 6, 1)
            dropped[#dropped + 1] = letter(step_group, priority, host, 0, now, '', value:sub(at + 1))
        else
            at = unpack_limit(value, 6, 1)
            local element = reset_attempts(value:sub(at + 1))
            local size = struct.unpack('>I4', element, 23)
            -- The client packs the time to live first into the task, 0 for none.
            local _, ttl = unpack_limit(element:sub(27, 26 + size), 1, 1)
            enter(host, step_group, priority, element, ttl > 0 and now + delay + ttl or 0, delay > 0 and now + delay or 0)
        end
    end
end
call_chunked('HDEL', run.R .. 'dead', gone)
call_chunked('ZREM', run.R .. 'dead_order', gone)
call_chunked('RPUSH', run.R .. 'dropped', dropped)
write_entered(run)
write_counts(run)
if #gone > 0 or TRY > 1 then
    write_receipt(#gone)
end
delete_acked_receipt()
return #gone
