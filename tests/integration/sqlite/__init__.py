"""The SQLite queue under real conditions: many processes, sudden deaths, full disks, strange files."""
