-- A copy of every dead letter goes to the dead-letter queue, for people and other programs to see.

local AT_MOST = 100
local write_dead_here = write_dead

local function send_letters(run, from, to)
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
    note_cargo(run, LETTERS, '\146' .. pack(names) .. '\221' .. struct.pack('>I4', #copies) .. table.concat(copies))
end

local function write_dead(run)
    for from = 1, #graves, AT_MOST do
        send_letters(run, from, min(from + AT_MOST - 1, #graves))
    end
    write_dead_here(run)
end
