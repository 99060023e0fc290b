SELECT ifnull(max(no), 0) FROM dead WHERE run = :run
