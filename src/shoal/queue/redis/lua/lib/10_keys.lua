-- The beginning of every script. KEYS[1] is the shard, `{shoal:0}` (`{shoal.NAME:0}` in a namespace), which is also the hash tag of all its keys; the
-- names below are built from it. ARGV[1] is the id of a call that must take effect once ('' for one that may be
-- repeated), followed by +2, +3 and so on when the call is tried again; ARGV[2] an earlier call whose reply has arrived, ARGV[3] an
-- offset of the clock (tests only).
--
-- No key is named `{shoal:0}`, and that makes a moving slot safe: for a declared key that does not exist, the node that migrates a
-- slot away replies ASK before the script runs. The client never follows ASK, so no script ever runs on a part of its keys.
--
-- Of the shard                             P = {shoal:0}:
--   meta            hash     version, shards, server (its run_id), hold, longest (delay or pause), token, clock, runs and known (last numbers), ahead (its clock of the server's)
--   runs            hash     run id -> number
--   run:N           hash     settings and state of run N, how many of its tasks remain, ever entered, or were ever sent elsewhere
--   host_limits     hash     host -> last start, its gap, own delay, end of its pause, whether a host queue is parked, earlier starts with their gaps
--   hosts           list     every host, in the order in which they were first seen
--   host_queues:H   intset   the host queues of host H that hold tasks: (run * 65536 + step group) * 10 + priority
--   live:H          intset   the tokens of the live leases of host H: per_host is counted here, never in a number
--   next_due        zset     run number -> a time before which nothing in it becomes due
--   next_lost       zset     run number -> a time before which none of its leases expires
--   receipt:C       string   the reply of call C, for ten minutes or until the caller acknowledges it
--   outboxes        intset   numbers of the runs that have an outbox or delivered entries
--   purging         hash     run number -> run id, while a purge is under way;   gone  intset  numbers of purged runs
--   spreading       hash     run number -> run id, while a change is copied to other shards (shard 0)
--   dedup:S         hash     lifetime : eighth -> number of the set of keys that runs of scraper S queued in it, see 48_known.lua
--   known:N         hash     group -> number of keys in set N;   known:N:G:K  intset  bucket K of group G. Both expire
--   topics          hash     topic -> bytes of its values;   topic_expiry  zset  topic -> a time before which none of its notes expires
--   note:T          hash     key of a note -> stamp, when it was written, when it expires or 0, size;   value:T  hash  key -> value
--   aged:T          zset     key -> when it was written;   note_expiry:T  zset  key -> when it expires
-- Of a run                                 R = {shoal:0}:N:
--   step_groups     hash     step NUL partition -> number;   names  hash  the other way round
--   due_lists       intset   step group * 10 + priority of every `due` that is not empty
--   due:S:B         zset     host -> when to look at its host queue; S a step group, B a priority
--   q:S:B:H         list     the host queue: its pending tasks, first in, first out
--   leases          hash     task id -> lease;    deadlines  zset  task id -> deadline
--   bodies          hash     task id -> task, while it is delayed or may expire;   delayed, expiring  zset  task id -> moment
--   seen            hash     group -> number of keys;   seen:G:K  intset  bucket K of group G
--   items, rejects           streams: one entry per settle call
--   dead            hash     task id -> dead letter;   dead_order  zset  task id -> order of burial
--   expired         list     tasks whose time to live is over;   dropped  list  dead letters that were dropped
--   counters        hash     step group -> nine counts;   hosts  hash  host -> nine counts;   visited  list  the hosts
--   workers         hash     worker -> completed, failed, items, leased;   beats  hash  worker -> heartbeat
--   outbox          stream   tasks for other shards;   delivered  stream  those that were delivered, for some seconds more
--
-- A task is one string in one place at a time, its element:
--   C4 10 id(16) | CD attempts(2) | CE size(4) | the task as the client packed it | its failures, C0 or DC count(2) ...
-- all of it MessagePack, so that a client decodes a whole reply at once while Lua moves it undecoded.

local P = KEYS[1] .. ':'
local CALL, ACKED = ARGV[1], ARGV[2]
local TRY = tonumber(CALL:match('%+(%d+)$')) or 1
CALL = CALL:match('^[^+]*')
local call, pack, unpack_all, unpack_limit = redis.call, cmsgpack.pack, cmsgpack.unpack, cmsgpack.unpack_limit
local floor, ceil, max, min, huge, char = math.floor, math.ceil, math.max, math.min, math.huge, string.char

local CHUNK = 1000  -- arguments of one command: Lua's stack ends at about 7,000
local FOR_TEN_MINUTES = 600000

-- The store's clock is the server's, except that it goes on where that is set back (or a replica whose clock is behind takes over):
-- gaps of hosts, delays and leases end at times, and would all last as much longer. The last token is the time of the last claim.
local SET_BACK = 10000000  -- microseconds; less has no effect
local was_ahead, ahead
local function clock()
    local time, meta = call('TIME'), call('HMGET', P .. 'meta', 'token', 'ahead')
    local latest = tonumber(meta[1]) or 0
    local machine = time[1] * 1000000 + time[2] + ARGV[3]
    was_ahead = tonumber(meta[2]) or 0
    ahead = machine < latest and was_ahead or 0
    if machine + ahead < latest - SET_BACK then
        ahead = latest - machine
    end
    return machine + ahead
end
local now = clock()

-- Lua writes a number of this size as 1.7e15 when it is joined to a string. A command's argument should be written with this too:
-- Redis writes numbers as floating point, which takes several times as long.
local last_number, last_digits
local function digits(number)
    if number ~= last_number then
        last_number, last_digits = number, string.format('%d', number)
    end
    return last_digits
end

-- The same for a token. Tokens mostly follow each other, and to join two strings is faster than to format a number.
local last_tens, last_beginning
local function token_digits(token)
    local ones = token % 10
    if token - ones ~= last_tens then
        last_tens, last_beginning = token - ones, digits(token - ones):sub(1, -2)
    end
    return last_beginning .. char(48 + ones)
end

-- Called by claims: from now on the clock goes on from here.
local function record_clock()
    if ahead ~= was_ahead then
        call('HSET', P .. 'meta', 'ahead', digits(ahead))
    end
end

-- Call a command with a long list in chunks; CHUNK is even, so that pairs stay together.
local function call_chunked(command, key, list)
    for from = 1, #list, CHUNK do
        call(command, key, unpack(list, from, min(from + CHUNK - 1, #list)))
    end
end

-- HMGET of any length.
local function read_fields(key, names)
    if #names == 0 then
        return {}
    end
    if #names <= CHUNK then
        return call('HMGET', key, unpack(names))
    end
    local all = {}
    for from = 1, #names, CHUNK do
        for _, value in ipairs(call('HMGET', key, unpack(names, from, min(from + CHUNK - 1, #names)))) do
            all[#all + 1] = value
        end
    end
    return all
end

local known_runs = {}
local function run_numbered(number)
    number = tonumber(number)
    local run = known_runs[number]
    if run == nil then
        local field = call('HMGET', P .. 'run:' .. number, 'state', 'host_delay', 'per_host', 'max_attempts', 'id')
        run = field[1] and {
            number = number, state = field[1], host_delay = tonumber(field[2]), per_host = tonumber(field[3]),
            max_attempts = tonumber(field[4]), id = field[5], R = P .. number .. ':',
        } or false
        known_runs[number] = run
    end
    return run
end

local function run_named(id)
    local number = call('HGET', P .. 'runs', id)
    return number and run_numbered(number)
end

local function unknown(id)
    return redis.error_reply('UNKNOWNRUN ' .. id)
end

-- Receipts: the reply of the same call when it was made before.
local function read_receipt()
    local receipt = CALL ~= '' and call('GET', P .. 'receipt:' .. CALL)
    local try = receipt and receipt:match('^none:(%d+)$')
    if try then
        return TRY <= tonumber(try) and ''
    end
    return receipt
end

local function write_receipt(reply)
    if CALL ~= '' then
        call('SET', P .. 'receipt:' .. CALL, reply, 'PX', FOR_TEN_MINUTES)
    end
end

-- A full server checks only the first write of a script, and lets a script continue that begins by freeing something, even if
-- there is nothing to free. Called by scripts that must work on a full server: they free memory or keep leases alive.
local function allow_when_full()
    call('UNLINK', P .. 'receipt:')
end

-- There was nothing to do. An attempt that arrives after its repetition must not find something, because its reply is lost. The
-- next repetition may, because its reply is received.
local function write_empty_receipt()
    if TRY > 1 then
        allow_when_full()
        write_receipt('none:' .. TRY)
    end
end

-- At the end: as the first write of a script it would disable the server's check for free memory.
local function delete_acked_receipt()
    if ACKED ~= '' then
        call('UNLINK', P .. 'receipt:' .. ACKED)
    end
end

-- Which process serves this shard: it changes with a restart, and with a failover to a replica.
local function server_id()
    return call('INFO', 'server'):match('run_id:(%x+)')
end

-- The next number of a sequence that rises with time: a store that lost its last second does not repeat one.
local function draw(field, count)
    local first = max((tonumber(call('HGET', P .. 'meta', field)) or 0) + 1, now)
    call('HSET', P .. 'meta', field, digits(first + count - 1))
    return first
end
