-- Settle (ack): apply outcomes to leases of one run; those whose lease is not live with the same token are stale.
--
-- ARGV  4 run, 5 ids (16 bytes each), 6 tokens, 7 kinds (a letter each), 8 position -> {after, error, pause, slow, unused},
--       9 {positions, numbers of items, lengths} and 10 the same of rejects, 11 columns of the follow-up tasks of this shard,
--       12 {position, shard} of those of others, 13 the items and 14 the rejects of all outcomes as an array, then one blob for
--       each entry of 11 and 12
-- Returns the positions that were accepted, or their number if that is all.

local receipt = read_receipt()
if receipt then
    return unpack_all(receipt)
end
local blob = 15  -- the next argument to read
local run = run_named(ARGV[4])
if not run then
    return {}
end

allow_when_full()
local kinds, extras = ARGV[7], unpack_all(ARGV[8])
local ids = {struct.unpack(('c16'):rep(#ARGV[5] / 16), ARGV[5])}
ids[#ids] = nil  -- the position after the last one
local is_plain = not next(extras)  -- all are completed, and nothing changes for their hosts

-- Everything that can fail is here, before the first lease is changed.
local columns = unpack_all(ARGV[11])
step_group_numbers(run, columns[2])

local accepted, list, hosts, freed, starts = finish(run, ids, unpack_all(ARGV[6]), not is_plain and function(i)
    local extra = extras[i]
    if extra then
        return kinds:sub(i, i), extra[2], extra[1]
    end
    return kinds:sub(i, i), '', 0
end)

-- The parts of an array that belong to accepted outcomes.
local function cut(array, positions, lengths)
    local pieces, at = {}, 6
    for n, i in ipairs(positions) do
        if accepted[i] then
            pieces[#pieces + 1] = array:sub(at, at + lengths[n] - 1)
        end
        at = at + lengths[n]
    end
    return '\221' .. struct.pack('>I4', #pieces) .. table.concat(pieces)
end

-- One stream entry for all results of this call: the client packs them, and they are read only if some are not accepted.
local function store(stream, parts, array, kind, worker_kind)
    local positions, numbers, lengths = unpack(parts, 1, 3)
    local total, sum, holder = 0, 0, nil  -- the sum of the outcomes that follow each other and have the same holder
    local function count_results()
        if sum > 0 then
            count(holder.host, holder.step_group, kind, sum)
            if worker_kind then
                count_worker(holder.worker, worker_kind, sum)
            end
            total, sum = total + sum, 0
        end
    end
    for n = 1, #positions do
        local holder_of = accepted[positions[n]]
        if holder_of then
            if holder_of ~= holder then
                count_results()
                holder = holder_of
            end
            sum = sum + numbers[n]
        end
    end
    count_results()
    if total > 0 then
        local things = #list == #ids and array or cut(array, positions, lengths)
        call('XADD', run.R .. stream, digits(draw('clock', total)) .. '-0', 't', digits(now), 'b', things)
    end
end

-- Apply pauses and delays in the order of the outcomes, and give unused starts back. Hosts that may be quicker now are woken,
-- because their host queues may wait too long.
local function limit_hosts()
    local touched, treated = {}, {}
    for _, i in ipairs(list) do
        if extras[i] and (extras[i][3] or extras[i][4] or extras[i][5]) and hosts[i] ~= '' then
            touched[#touched + 1] = hosts[i]
        end
    end
    load_host_limits(touched)
    for _, i in ipairs(list) do
        local _, _, pause, slow, unused = unpack(extras[i] or {}, 1, 5)
        local limits = host_limits[hosts[i]]
        unused = unused and hosts[i] ~= '' and #limits.earlier > 0
        if unused then
            give_back(limits, starts[i])
        end
        if (pause or slow or unused) and hosts[i] ~= '' then
            limits.paused_until = max(limits.paused_until, pause and now + pause or 0)
            limits.slowdown = slow or limits.slowdown
            note_longest_delay(slow, pause)
            changed_limits[hosts[i]], treated[hosts[i]] = true, true
        end
    end
    return treated
end

if #list > 0 then
    store('items', unpack_all(ARGV[9]), ARGV[13], ITEMS, W_ITEMS)
    store('rejects', unpack_all(ARGV[10]), ARGV[14], REJECTED)
    put(run, columns, blob, accepted, now)
    blob = blob + #columns[3]
    for _, part in ipairs(unpack_all(ARGV[12])) do
        if accepted[part[1]] then
            send(run, part[2], now, ARGV[blob])
        end
        blob = blob + 1
    end
    local treated = is_plain and {} or limit_hosts()
    free_hosts(freed, treated)
    for host in pairs(treated) do
        wake(host)
    end
    write_entered(run)
    write_dead(run)
    write_counts(run)
    write_host_limits()
    write_receipt(pack(#list == #ids and #list or list))
end
delete_acked_receipt()
return #list == #ids and #list or list
