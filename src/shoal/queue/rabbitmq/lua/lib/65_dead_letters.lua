-- A copy of every dead letter goes to the dead-letter queue, for users and other programs.

local MAX_LETTERS = 100
local write_dead_in_redis = write_dead

local function send_dead_letters(run, from, to)
    local sections, known, copies = {}, {}, {}
    for i = from, to do
        local letter = letters[2 * i]
        local _, section = unpack_limit(letter, 1, 1)
        if not known[section] then
            known[section] = true
            sections[#sections + 1] = section
        end
        copies[#copies + 1] = letter
    end
    local names = {}
    for i, name in ipairs(read_fields(run.R .. 'names', sections)) do
        names[i] = {sections[i], name}
    end
    note_outgoing(run, DEAD_LETTERS, '\146' .. pack(names) .. '\221' .. struct.pack('>I4', #copies) .. table.concat(copies))
end

local function write_dead(run)
    for from = 1, #graves, MAX_LETTERS do
        send_dead_letters(run, from, min(from + MAX_LETTERS - 1, #graves))
    end
    write_dead_in_redis(run)
end
