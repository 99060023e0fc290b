-- After a reclaim: the runs that have bundles whose time has come, and whether bundles are overdue.

local extra = {ashore, has_overdue() and 1 or 0}
