"""What every server's queue must stand, in one suite."""
