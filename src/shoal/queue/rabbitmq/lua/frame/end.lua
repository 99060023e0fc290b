-- Bundles go out with the answer. A call that is repeated because its answer was lost hears of them again, as far as nobody has
-- sent them.

local function told_again()
    for name in told_cargo:gmatch(('%x'):rep(40)) do
        local value = call('HGET', P .. 'sailing', name)
        if value then
            local at, way, number, id = unpack_limit(value, 3, 0)
            sailing[#sailing + 1] = {name, way, number, id, value:sub(at + 1)}
        end
    end
end

local function remember_cargo()
    local names = {}
    for i, one in ipairs(sailing) do
        names[i] = one[1]
    end
    call('SET', P .. 'receipt:' .. CALL .. ':river', table.concat(names), 'PX', FOR_TEN_MINUTES)
end

if told_cargo then
    told_again()
elseif CALL ~= '' and #sailing > 0 then
    remember_cargo()
end
if ACKED ~= '' then
    call('UNLINK', P .. 'receipt:' .. ACKED .. ':river')
end
return {answer, sailing, extra}
