"""Worker processes: started, killed, stopped, blocked, supervised."""
