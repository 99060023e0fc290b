"""Shoal where hosts are slow, workers are killed, and every host's pace is to be kept."""
