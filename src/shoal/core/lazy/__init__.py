"""What is built when it is first used rather than when its module is imported."""
