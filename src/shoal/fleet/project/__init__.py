"""The project file and its cluster settings."""
