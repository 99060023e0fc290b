-- Counts are collected while a script runs and written once: nine numbers packed into one field per step group and host, which
-- needs a quarter of the memory of nine fields, and two commands per host instead of nine.

local PENDING, DELAYED, LEASED, COMPLETED, DEAD, EXPIRED, DROPPED, ITEMS, REJECTED = 1, 2, 3, 4, 5, 6, 7, 8, 9
local W_COMPLETED, W_FAILED, W_ITEMS, W_LEASED = 1, 2, 3, 4
local step_group_counts, host_counts, worker_counts = {}, {}, {}
-- The rows that were counted in last: tasks of one host mostly follow each other.
local last = {}

local function row_of(rows, name, size)
    local row = rows[name]
    if not row then
        row = size == 9 and {0, 0, 0, 0, 0, 0, 0, 0, 0} or {0, 0, 0, 0}
        rows[name] = row
    end
    return row
end

local function count(host, step_group, kind, number)
    if host ~= last.host or step_group ~= last.step_group then
        last.host, last.step_group = host, step_group
        last.in_step_group = row_of(step_group_counts, step_group, 9)
        last.in_host = host ~= '' and row_of(host_counts, host, 9)
    end
    local row = last.in_step_group
    row[kind] = row[kind] + number
    row = last.in_host
    if row then
        row[kind] = row[kind] + number
    end
end

local function count_worker(worker, kind, number)
    local row = row_of(worker_counts, worker, 4)
    row[kind] = row[kind] + number
end

-- The sum of a row and a stored one, packed. Arrays are unpacked and packed as single values, which is several times as fast.
local function add_row(row, stored)
    if #row == 4 then
        local _, a, b, c, d = unpack_limit(stored, 4, 1)
        return '\148' .. pack(a + row[1], b + row[2], c + row[3], d + row[4])
    end
    local _, a, b, c, d, e, f, g, h, i = unpack_limit(stored, 9, 1)
    return '\153' .. pack(a + row[1], b + row[2], c + row[3], d + row[4], e + row[5], f + row[6], g + row[7], h + row[8], i + row[9])
end

-- Add collected rows to stored ones; return the names that are new.
local function add_rows(key, rows)
    local names, fresh, fields = {}, {}, {}
    for name in pairs(rows) do
        names[#names + 1] = name
    end
    local stored = read_fields(key, names)
    for i, name in ipairs(names) do
        if not stored[i] then
            fresh[#fresh + 1] = name
        end
        fields[#fields + 1] = name
        fields[#fields + 1] = stored[i] and add_row(rows[name], stored[i]) or pack(rows[name])
    end
    call_chunked('HSET', key, fields)
    return fresh
end

local function write_counts(run)
    local remaining, entered = 0, 0
    for _, row in pairs(step_group_counts) do
        remaining = remaining + row[PENDING] + row[DELAYED] + row[LEASED]
        entered = entered + row[PENDING] + row[DELAYED] + row[LEASED] + row[COMPLETED] + row[DEAD] + row[EXPIRED] + row[DROPPED]
    end
    if remaining ~= 0 then
        call('HINCRBY', P .. 'run:' .. run.number, 'remaining', remaining)
    end
    if entered ~= 0 then
        call('HINCRBY', P .. 'run:' .. run.number, 'entered', entered)
    end
    add_rows(run.R .. 'counters', step_group_counts)
    call_chunked('RPUSH', run.R .. 'visited', add_rows(run.R .. 'hosts', host_counts))
    add_rows(run.R .. 'workers', worker_counts)
    step_group_counts, host_counts, worker_counts, last = {}, {}, {}, {}
end
