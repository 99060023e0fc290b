"""The settings that a run was made with, which every worker reads and follows."""
