"""What must not be written down or told to others, looked for everywhere."""
