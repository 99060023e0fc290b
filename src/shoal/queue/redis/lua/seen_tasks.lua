-- Which tasks have ever entered a run. ARGV  4 run number, 5... id and key of each, alternating. Returns their positions.

local R, seen = P .. ARGV[4] .. ':', {}
for i = 5, #ARGV, 2 do
    local number = ARGV[i]:byte(8) % GROUPS
    local bucket = bucket_of(group_of(call('HGET', R .. 'seen', number)), ARGV[i + 1])
    if call('SISMEMBER', R .. 'seen:' .. number .. ':' .. bucket, ARGV[i + 1]) == 1 then
        seen[#seen + 1] = (i - 3) / 2
    end
end
return seen
