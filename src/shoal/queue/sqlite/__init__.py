"""The queue in one SQLite file: nothing to install, and several processes of one machine may share it."""
