"""Real servers, started for the tests on free ports in temporary folders; a running one is never touched."""
