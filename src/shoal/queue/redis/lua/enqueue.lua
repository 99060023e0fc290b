-- Add tasks to a run. ARGV  4 run, 5 columns, 6 the moment from which times count ('' for now), 7... elements
-- Returns how many were new, and how many another run has queued.

local run = run_named(ARGV[4])
if not run then
    return unknown(ARGV[4])
end
local receipt = read_receipt()
if receipt then
    return unpack_all(receipt)
end
local added, known_before = put(run, unpack_all(ARGV[5]), 7, nil, tonumber(ARGV[6]) or now)
write_entered(run)
write_counts(run)
if added > 0 then
    write_receipt(pack({added, known_before}))
end
delete_acked_receipt()
return {added, known_before}
