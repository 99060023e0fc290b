"""Worker processes: fork server, supervisor, heartbeats and liveness."""
