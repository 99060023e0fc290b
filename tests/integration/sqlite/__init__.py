"""The SQLite queue under real conditions: many processes, killed processes, full disks, foreign files."""
