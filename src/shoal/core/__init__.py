"""The words of Shoal, its errors, and its decisions: pure, no I/O, clocks passed in."""
