"""Nightly runs of a shop that changes, on a real queue: what is noticed, what is fetched, what is stored."""
