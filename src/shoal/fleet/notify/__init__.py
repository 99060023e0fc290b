"""Messages about runs: what happened, to whom it is sent, and how far delivery is."""
