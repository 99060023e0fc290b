"""Several launchers, machines and on-demand calls."""
