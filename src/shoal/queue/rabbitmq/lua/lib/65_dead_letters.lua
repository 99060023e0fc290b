-- A copy of every dead letter goes to the dead-letter queue, for users and other programs. Replay is that of the Redis queue
-- (redis/lua/dead.lua).

local MAX_LETTERS = 100
local write_dead_in_redis = write_dead

local function send_dead_letters(run, from, to)
    local step_groups, known, copies = {}, {}, {}
    for i = from, to do
        local letter = letters[2 * i]
        local _, step_group = unpack_limit(letter, 1, 1)
        if not known[step_group] then
            known[step_group] = true
            step_groups[#step_groups + 1] = step_group
        end
        copies[#copies + 1] = letter
    end
    local names = {}
    for i, name in ipairs(read_fields(run.R .. 'names', step_groups)) do
        names[i] = {step_groups[i], name}
    end
    note_outgoing(run, DEAD_LETTERS, '\146' .. pack(names) .. '\221' .. struct.pack('>I4', #copies) .. table.concat(copies))
end

local function write_dead(run)
    for from = 1, #dead_ids, MAX_LETTERS do
        send_dead_letters(run, from, min(from + MAX_LETTERS - 1, #dead_ids))
    end
    write_dead_in_redis(run)
end
