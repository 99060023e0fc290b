-- Bundles that Redis expects and the broker does not have: somebody deleted them there, or this server lost what happened longer ago
-- than their messages were kept. They are given up after a while, so that their hosts are free for other tasks and the run comes
-- to its end, and their tasks may enter again. In one table, for a script has room for 200 names.
--
-- A way is suspected when a claim wants what is on it and finds its queue empty. That alone means little: others may have the bundles
-- in their hands for a moment. Delayed bundles that were due then are lost if they have not come two minutes later, and the queue is
-- empty again. Of tasks that may start, Redis knows how many are afloat in each lane, not in which bundle. So the way is closed, new
-- tasks stay here, and once nothing has come by it for two minutes, all that is left on it is lost.

local losses = {}
losses.AFTER = 120000000  -- microseconds; a message in the hands of a dead worker comes back within half a minute

-- Whether a way is closed for new tasks ('c') or only suspected ('s'), and since when.
function losses.read_empty(run, way)
    local value = call('HGET', run.R .. 'empty', way)
    if value then
        return value:sub(1, 1), tonumber(value:sub(2))
    end
    return nil, now
end

function losses.write(run, way, stage)
    call('HSET', run.R .. 'empty', way, stage .. digits(now))
end

function losses.is_afloat(run, priority)
    for _, lane in ipairs(call('SMEMBERS', run.R .. 'currents')) do
        if lane % 10 == priority then
            return true
        end
    end
    return false
end

-- Bundles have come by these ways. One on which nothing more is expected is suspected no longer; a closed one is waited for anew.
function losses.note_landing(run, ways)
    for _, way in ipairs(call('HKEYS', run.R .. 'empty')) do
        way = tonumber(way)
        if way < FIRST_WAIT and not losses.is_afloat(run, way) then
            call('HDEL', run.R .. 'empty', way)
        elseif ways[way] and losses.read_empty(run, way) == 'c' then
            losses.write(run, way, 'c')
        end
    end
end

-- The bundles of a way that are given up: none that nobody has sent yet. Of delayed ones only those that were due at a moment.
function losses.candidates(run, way, due_by)
    local names = {}
    if way >= FIRST_WAIT then
        for _, set in ipairs({'sunk', 'ebbing'}) do
            for _, name in ipairs(call('ZRANGEBYSCORE', run.R .. set, '-inf', due_by)) do
                names[name] = tonumber(call('HGET', run.R .. 'bundles', name)) == way or nil
            end
        end
    else
        local all = call('HGETALL', run.R .. 'bundles')
        for i = 1, #all, 2 do
            names[all[i]] = tonumber(all[i + 1]) == way or nil
        end
    end
    for name in pairs(names) do
        if call('HEXISTS', P .. 'sailing', name) == 1 then
            return nil
        end
    end
    return names
end

function losses.forget_bundle(run, name, prints)
    call('HDEL', run.R .. 'bundles', name)
    call('HDEL', run.R .. 'manifests', name)
    call('ZREM', run.R .. 'sunk', name)
    call('ZREM', run.R .. 'ebbing', name)
    call('SADD', run.R .. 'lost', name)
    local numbers = {}
    for at = 1, #prints, 4 do
        numbers[#numbers + 1] = struct.unpack('>I4', prints, at)
    end
    tell('SADD', run.R .. 'lost_prints', numbers)
end

function losses.give_up_delayed(run, names)
    local lost = 0
    for name in pairs(names) do
        local packed = call('HGET', run.R .. 'manifests', name)
        if packed then  -- of what an earlier version sent there is none
            local prints, hosts, sections, host_of, section_of = unpacked(packed)
            for i, at in ipairs(host_of or {}) do
                count(hosts[at], sections[section_of[i]], DELAYED, -1)
                lost = lost + 1
            end
            losses.forget_bundle(run, name, prints)
        end
    end
    return lost
end

function losses.give_up_lane(run, section, priority)
    local key, lost = run.R .. 'afloat:' .. section .. ':' .. priority, 0
    local hosts = call('HGETALL', key)
    for i = 1, #hosts, 2 do
        count(hosts[i], section, PENDING, -tonumber(hosts[i + 1]))
        lost = lost + tonumber(hosts[i + 1])
        call('SREM', P .. 'river:' .. hosts[i], lane_number(run, section, priority))
    end
    call('UNLINK', key, run.R .. 'thirst:' .. section .. ':' .. priority)
    call('SREM', run.R .. 'currents', section * 10 + priority)
    return lost
end

function losses.give_up_pending(run, way, names)
    local lost = 0
    for _, lane in ipairs(call('SMEMBERS', run.R .. 'currents')) do
        if lane % 10 == way then
            lost = lost + losses.give_up_lane(run, floor(lane / 10), way)
        end
    end
    for name in pairs(names) do
        local packed = call('HGET', run.R .. 'manifests', name)
        losses.forget_bundle(run, name, packed and (unpacked(packed)) or '')
    end
    return lost
end

-- The queue of a way is empty, and something was expected on it. Returns how many tasks are lost, and in how many microseconds it is
-- worth while to look again, -1 for not at all.
function losses.found_empty(run, way)
    local stage, since = losses.read_empty(run, way)
    if way < FIRST_WAIT and not losses.is_afloat(run, way) then
        call('HDEL', run.R .. 'empty', way)
        return 0, -1
    elseif not stage then
        losses.write(run, way, 's')
        return 0, losses.AFTER
    elseif now - since < losses.AFTER then
        return 0, since + losses.AFTER - now
    elseif way < FIRST_WAIT and stage == 's' then
        losses.write(run, way, 'c')
        return 0, losses.AFTER
    end
    local names, lost = losses.candidates(run, way, since), 0
    if not names then
        losses.write(run, way, stage)
        return 0, losses.AFTER
    end
    call('HDEL', run.R .. 'empty', way)
    if next(names) then
        lost = way >= FIRST_WAIT and losses.give_up_delayed(run, names) or losses.give_up_pending(run, way, names)
        write_counts(run)
        call('HINCRBY', P .. 'run:' .. run.number, 'lost', lost)
    end
    return lost, -1
end
