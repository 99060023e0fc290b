-- How leases end: by an outcome, or because their deadline has passed.

local DONE, RETRY, BURY, RELEASE, LOST = 'D', 'R', 'B', 'F', 'L'

local function attempts_of(element)
    return struct.unpack('>I2', element, 20)
end

-- The element after a failure: with one more attempt, and one more entry in its history.
local function failed(element, attempts, worker, message)
    local size = struct.unpack('>I4', element, 23)
    local history = element:sub(27 + size)
    local entry = pack({attempts, worker, message, now})
    if #history == 1 then
        history = '\220\0\1' .. entry
    else
        local entries = struct.unpack('>I2', history, 2)
        history = '\220' .. struct.pack('>I2', entries + 1) .. history:sub(4) .. entry
    end
    return element:sub(1, 19) .. struct.pack('>I2', attempts) .. element:sub(22, 26 + size) .. history
end

-- The element with its attempts set to 0.
local function reset_attempts(element)
    return element:sub(1, 19) .. '\0\0' .. element:sub(22)
end

-- A letter consists of these fields, followed by the element: eleven values.
local function letter(step_group, priority, host, attempts, at, message, element)
    return '\155' .. pack(step_group, priority, host, attempts, at, message) .. element
end

local dead_ids, letters = {}, {}
local function bury(id, ...)
    dead_ids[#dead_ids + 1] = id
    letters[#letters + 1] = id
    letters[#letters + 1] = letter(...)
end

local function write_dead(run)
    if #dead_ids == 0 then
        return
    end
    local order, first = {}, draw('clock', #dead_ids)
    for i, id in ipairs(dead_ids) do
        order[#order + 1] = first + i - 1
        order[#order + 1] = id
    end
    call_chunked('ZADD', run.R .. 'dead_order', order)
    call_chunked('HSET', run.R .. 'dead', letters)
    dead_ids, letters = {}, {}
end

-- An attempt has failed: bury the task, or let it wait for a retry.
local function fail(run, id, lease, element, kind, message, after)
    local attempts = attempts_of(element) + 1
    element = failed(element, attempts, lease.worker, message)
    count_worker(lease.worker, W_FAILED, 1)
    if kind == BURY or attempts >= run.max_attempts then
        count(lease.host, lease.step_group, DEAD, 1)
        -- Below the first line is a traceback. Only the history has it: filters search the error alone.
        local first = message:match('^[^\n]*')
        bury(id, lease.step_group, lease.priority, lease.host, attempts, now, first, element)
    else
        enter(lease.host, lease.step_group, lease.priority, element, lease.expires, after > 0 and now + after or 0)
    end
end

-- Leases that follow each other and have the same host, step group and worker are counted together.
local function count_ended(holder)
    count(holder.host, holder.step_group, LEASED, -holder.ended)
    count_worker(holder.worker, W_LEASED, -holder.ended)
    if holder.completed > 0 then
        count(holder.host, holder.step_group, COMPLETED, holder.completed)
        count_worker(holder.worker, W_COMPLETED, holder.completed)
    end
end

-- End the leases with these ids and tokens; `outcome(i)` returns how: kind, error, after. Without it, all tasks are completed. Returns
-- the positions that were accepted as a set and a list, the host of each, the tokens by host, and the start of each; the others are
-- stale and ignored.
local function finish(run, ids, tokens, outcome)
    local accepted, list, hosts, ended, freed, starts = {}, {}, {}, {}, {}, {}
    local holder = {ended = 0}  -- of the lease before
    local values, kind, message, after = read_fields(run.R .. 'leases', ids), DONE, '', 0
    for i = 1, #ids do
        local value = values[i]
        local at, token, step_group, priority, start, _, expires, host, worker
        if value then
            at, token, step_group, priority, start, _, expires, host, worker = unpack_limit(value, 8, 1)
        end
        if value and token == tokens[i] then
            if outcome then
                kind, message, after = outcome(i)
            end
            if host ~= holder.host or step_group ~= holder.step_group or worker ~= holder.worker then
                if holder.ended > 0 then
                    count_ended(holder)
                end
                holder = {host = host, step_group = step_group, worker = worker, tokens = freed[host] or {}, ended = 0, completed = 0}
                freed[host] = holder.tokens
            end
            local n = #list + 1
            accepted[i], hosts[i], starts[i], list[n], ended[n] = holder, host, start, i, ids[i]
            holder.tokens[#holder.tokens + 1] = token_digits(token)
            holder.ended = holder.ended + 1
            if kind == DONE then
                holder.completed = holder.completed + 1
            elseif kind == RELEASE then
                enter(host, step_group, priority, value:sub(at + 1), expires, after > 0 and now + after or 0)
            else
                local lease = {step_group = step_group, priority = priority, expires = expires, host = host, worker = worker}
                fail(run, ids[i], lease, value:sub(at + 1), kind, message, after)
            end
        end
    end
    if holder.ended > 0 then
        count_ended(holder)
    end
    freed[''] = nil
    call_chunked('HDEL', run.R .. 'leases', ended)
    call_chunked('ZREM', run.R .. 'deadlines', ended)
    return accepted, list, hosts, freed, starts
end
