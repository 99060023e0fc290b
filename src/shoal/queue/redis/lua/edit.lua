-- Replace the task of a dead letter. ARGV  4 run, 5 parts, 6 the letter as it was read, 7 its order, 8 the new task: step group name,
-- host, priority, old and new number as stored in `seen`, who edits it, the entry for its history; 9 its element, without history.
--
-- The parts are letters: k(ey: store the new one), t(ake the old letter), p(lace the new one), f(ree the old key). On a cluster they may
-- be those of several shards, with one call each, and the letter is placed before it is taken, so that none is lost; u undoes p, g undoes k.
-- Returns 1 if done, 0 if the run has the new key, -1 if the letter is no longer as it was read.

local run = run_named(ARGV[4])
if not run then
    return unknown(ARGV[4])
end
local receipt = read_receipt()
if receipt then
    return tonumber(receipt)
end
local old, fresh = ARGV[6], unpack_all(ARGV[8])
local name, host, priority, old_key, key, editor, note = unpack(fresh)
local at, old_step_group, _, old_host, attempts, buried, message = unpack_limit(old, 6, 1)
local old_element, element = old:sub(at + 1), ARGV[9]
local old_id, id, reply = old_element:sub(3, ID), element:sub(3, ID), 1

local function has(part)
    return ARGV[5]:find(part, 1, true)
end

local function take(taken, from, step_group)
    call('HDEL', run.R .. 'dead', taken)
    call('ZREM', run.R .. 'dead_order', taken)
    count(from, step_group, DEAD, -1)
end

local function place()
    local step_group = step_group_numbers(run, {name})[1]
    local history = old_element:sub(27 + struct.unpack('>I4', old_element, 23))
    local noted = failed(element:sub(1, -2) .. history, 0, editor, note)
    noted = noted:sub(1, 19) .. old_element:sub(20, 21) .. noted:sub(22)
    register_hosts({host})
    call('HSET', run.R .. 'dead', id, letter(step_group, priority, host, attempts, buried, message, noted))
    call('ZADD', run.R .. 'dead_order', ARGV[7], id)
    count(host, step_group, DEAD, 1)
end

-- The group keeps its number of keys, from which its buckets follow.
local function free_key(freed, number)
    local group = freed:byte(10) % GROUPS
    call('SREM', run.R .. 'seen:' .. group .. ':' .. bucket_of(seen_group(run, group), number), number)
end

if has('t') and call('HGET', run.R .. 'dead', old_id) ~= old then
    reply = -1
elseif has('k') and not is_new(run, element, key) then
    reply = 0
else
    if has('t') then
        take(old_id, old_host, old_step_group)
    end
    if has('p') then
        place()
    end
    if has('u') and call('HEXISTS', run.R .. 'dead', id) == 1 then
        take(id, host, step_group_numbers(run, {name})[1])
    end
    write_seen(run)
    if has('f') then
        free_key(old_element, old_key)
    end
    if has('g') then
        free_key(element, key)
    end
    write_counts(run)
end
write_receipt(reply)
delete_acked_receipt()
return reply
