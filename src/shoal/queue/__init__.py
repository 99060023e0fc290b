"""Where tasks wait: one contract, one folder per backend."""
