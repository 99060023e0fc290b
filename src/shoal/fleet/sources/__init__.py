"""Sources of a run's tasks: URLs, files, sitemaps, combinations, earlier runs."""
