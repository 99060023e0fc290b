-- New tasks go afloat.

local put_here = put
local function put(...)
    floating = true
    local added = put_here(...)
    floating = false
    return added
end
