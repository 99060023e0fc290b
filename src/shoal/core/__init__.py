"""Core types, errors and decisions: pure, no I/O, clocks passed in."""
