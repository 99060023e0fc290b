"""Names that Shoal or an installed package provides: queues, exporters, sources, fetchers, commands."""
