-- Return the bundles to publish with the reply. A call that is repeated because its reply was lost gets them again, except those
-- that were sent in the meantime.

local function send_noted_again()
    for name in noted_bundles:gmatch(('%x'):rep(40)) do
        local value = call('HGET', P .. 'outgoing', name)
        if value then
            local at, route, number, id = unpack_limit(value, 3, 0)
            outgoing[#outgoing + 1] = {name, route, number, id, value:sub(at + 1)}
        end
    end
end

local function remember_outgoing()
    local names = {}
    for i, one in ipairs(outgoing) do
        names[i] = one[1]
    end
    call('SET', P .. 'receipt:' .. CALL .. ':bundles', table.concat(names), 'PX', FOR_TEN_MINUTES)
end

if noted_bundles then
    send_noted_again()
elseif CALL ~= '' and #outgoing > 0 then
    remember_outgoing()
end
if ACKED ~= '' then
    call('UNLINK', P .. 'receipt:' .. ACKED .. ':bundles')
end
return {reply, outgoing, extra}
