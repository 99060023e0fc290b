-- After a reclaim: the runs that have due bundles, and whether bundles are overdue.

local extra = {due_runs, has_overdue() and 1 or 0}
