"""The chain of fetchers of one worker; the order is in `chain.py` and nowhere else."""
