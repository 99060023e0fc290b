SELECT min(run) FROM purged
