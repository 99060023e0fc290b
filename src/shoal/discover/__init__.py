"""Sources of tasks: URL files, sitemaps, combinations, earlier runs."""
